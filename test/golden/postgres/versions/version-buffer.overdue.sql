select from_version::text as from_version, to_version::text as to_version, kind, payload
from "txbox".waiting
where consumer = $1 and key = $2 and dead_at is null
  and received_at <= pg_catalog.clock_timestamp() - $3::double precision * interval '1 millisecond'
order by waiting.from_version
