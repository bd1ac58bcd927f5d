select hex(name) as name, cast(expires_at is null or expires_at <= utc_timestamp(6) as char) as free
from `txbox_leases`
where name in (?)
