select hex(name) as name
from `txbox_leases`
where owner = ? and expires_at > utc_timestamp(6) and ((name = ? and term = ?) or (name = ? and term = ?))
