select q.place::text as place from "txbox".queue as q
where q.place = any ($1::bigint[]) and q.receipt is not null and q.due_at <= pg_catalog.clock_timestamp()
for update skip locked
