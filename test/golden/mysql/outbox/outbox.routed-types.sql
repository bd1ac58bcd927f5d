select distinct hex(u.type) as type
from `txbox_subscriptions` as u force index (primary)
where u.type in (?)
lock in share mode
