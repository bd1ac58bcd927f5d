select cast(count(*) as char) as locked
from `txbox_key_locks` force index (primary)
where number in (?)
for update
