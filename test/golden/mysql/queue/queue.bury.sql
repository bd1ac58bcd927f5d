update `txbox_queue` as q force index (primary)
set q.dead_at = utc_timestamp(6), q.due_at = null, q.receipt = null, q.order_key = null, q.error = ?
where q.place = ?
