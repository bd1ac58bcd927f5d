select cast(d.content_type as binary) as content_type, cast(d.headers as binary) as headers, d.payload as payload
from `txbox_local_parked` as d
where d.id = ? and d.consumer = coalesce(?, d.consumer) and case when ? then d.dead_at is null and (d.deliver_at is null or d.attempts > 0) else d.dead_at is not null end
order by d.place
limit ?
