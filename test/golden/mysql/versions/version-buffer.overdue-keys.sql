select distinct hex(w.`key`) as `key`
from `txbox_waiting` as w
where w.consumer = ? and w.dead_at is null and w.received_at <= utc_timestamp(6) - interval ? microsecond
limit ?
