delete q
from `txbox_queue` as q force index (primary)
where q.place in (?) and (q.place, q.receipt) in ((?, ?), (?, ?)) and q.topic = ? and q.order_key is null
