select p.errors
from "txbox".queue as p
where p.id = $1 and p.topic = $4 and case when $2::boolean then p.dead_at is null and (p.deliver_at is null or p.attempts > 0) and p.due_at is distinct from timestamptz 'epoch' else p.dead_at is not null end
order by p.place
limit $3
