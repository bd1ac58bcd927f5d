select '1' as held
from `txbox_leases` as l
where l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)
