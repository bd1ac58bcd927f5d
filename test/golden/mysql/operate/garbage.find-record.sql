select cast(id as char) as id
from `txbox_collections`
where id = 1
for update skip locked
