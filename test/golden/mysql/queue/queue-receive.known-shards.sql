select hex(name) as name
from `txbox_leases`
where name in (?)
