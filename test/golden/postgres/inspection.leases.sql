select name, owner, term::text as term, pg_catalog.floor(extract(epoch from expires_at - pg_catalog.clock_timestamp()) * 1000::numeric)::bigint::text as remaining_ms
from "txbox".leases
where owner is not null
order by name
