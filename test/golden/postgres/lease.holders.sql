select name, owner
from "txbox".leases
where starts_with(name, $1) and expires_at > clock_timestamp()
order by name
