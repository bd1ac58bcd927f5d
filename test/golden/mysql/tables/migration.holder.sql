select cast(title as binary) as holder
from `txbox_migrations`
where number = 0
