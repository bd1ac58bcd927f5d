update `txbox_queue` as q force index (primary)
set q.due_at = utc_timestamp(6) + interval ? microsecond
where q.place = ? and q.receipt = ? and q.topic = ?
