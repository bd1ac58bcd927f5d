select hex(name) as name
from `txbox_leases`
where left(name, ?) = ? and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)
