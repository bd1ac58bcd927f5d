select name, owner
from "txbox".leases
where pg_catalog.starts_with(name, $1) and expires_at > pg_catalog.clock_timestamp()
order by name
