select q.topic from "txbox".queue as q
where q.due_at is not null and q.topic > $1
order by q.topic, q.shard, q.due_at, q.place
limit 1
