select hex(i.`key`) as `key`
from `txbox_inbox` as i force index (primary)
where i.consumer = ?
limit ?
