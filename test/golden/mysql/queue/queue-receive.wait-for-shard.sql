select '1' as locked
from `txbox_leases`
where name = ?
for update
