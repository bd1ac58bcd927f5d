update `txbox_queue` as q force index (primary)
set q.due_at = utc_timestamp(6), q.receipt = null
where q.place in (?)
