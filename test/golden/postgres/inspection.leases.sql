select name, owner, term::text as term, floor(extract(epoch from expires_at - clock_timestamp()) * 1000)::bigint::text as remaining_ms
from "txbox".leases
where owner is not null
order by name
