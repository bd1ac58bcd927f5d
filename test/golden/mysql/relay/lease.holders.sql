select hex(name) as name, hex(owner) as owner
from `txbox_leases`
where left(name, ?) = ? and expires_at > utc_timestamp(6)
order by name
