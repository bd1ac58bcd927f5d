select distinct key
from "txbox".waiting
where consumer = $1 and dead_at is null
  and received_at <= pg_catalog.clock_timestamp() - $2::double precision * interval '1 millisecond'
limit $3
