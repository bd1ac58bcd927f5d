select p.errors
from "txbox".local_parked as p
where p.id = $1 and ($4::text is null or p.consumer = $4) and case when $2::boolean then p.dead_at is null and (p.deliver_at is null or p.attempts > 0) else p.dead_at is not null end
order by p.place
limit $3
