update "txbox".queue as q
set due_at = null, receipt = null, timeouts = q.timeouts + case when q.receipt is null then 0 else 1 end
where q.place = any ($1::bigint[])
