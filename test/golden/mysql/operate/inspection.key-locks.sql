select cast(count(*) as char) as n
from `txbox_key_locks`
