delete i
from `txbox_inbox` as i force index (primary)
where i.consumer = ? and i.`key` = ? and i.expires_at > utc_timestamp(6)
