select cast(d.errors as binary) as errors
from `txbox_queue` as d
where d.id = ? and d.topic = ? and case when ? then d.dead_at is null and (d.deliver_at is null or d.attempts > 0) and (d.due_at is null or d.due_at > '1970-01-01') else d.dead_at is not null end
order by d.place
limit ?
