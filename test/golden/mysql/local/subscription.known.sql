select hex(s.type) as type
from `txbox_subscriptions` as s force index (primary)
where s.type in (?) and s.consumer = ?
