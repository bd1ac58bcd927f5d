update `txbox_queue` as q force index (primary)
set q.receipt = null, q.due_at = utc_timestamp(6) + interval ? microsecond,
  q.error = ifnull(?, q.error), q.attempts = q.attempts - ?, q.timeouts = 0
where q.place = ? and q.receipt = ? and q.topic = ? and q.due_at > utc_timestamp(6)
