(select cast(? as char) as shard, null as locks from `txbox_queue` as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at <= utc_timestamp(6) limit 1)
