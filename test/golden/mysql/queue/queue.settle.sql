update `txbox_queue` as q force index (primary)
set q.due_at = '1970-01-01', q.receipt = null, q.payload = ''
where q.place in (?) and (q.place, q.receipt) in ((?, ?), (?, ?)) and q.topic = ? and q.due_at > utc_timestamp(6) and q.order_key is not null
