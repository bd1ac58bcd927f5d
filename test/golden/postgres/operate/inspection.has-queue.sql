select (
  exists (select from "txbox".queue as q where q.due_at is not null and q.topic = $1)
  or exists (select from "txbox".queue as q where q.order_key is not null and q.topic = $1)
  or exists (select from "txbox".queue as q where q.dead_at is not null and q.topic = $1)
  or exists (select from "txbox".leases as l where l.name = any ($2::text[]))
)::text as there
