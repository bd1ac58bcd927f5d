select '1' as live
from `txbox_inbox`
where consumer = ? and `key` = ? and expires_at > utc_timestamp(6)
