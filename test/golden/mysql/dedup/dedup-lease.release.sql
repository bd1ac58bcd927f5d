delete l
from `txbox_dedup_leases` as l force index (primary)
where l.consumer = ? and l.`key` = ? and l.token = ? and l.processed_at is null and l.expires_at > utc_timestamp(6)
