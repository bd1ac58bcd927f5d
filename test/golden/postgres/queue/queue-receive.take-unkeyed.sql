with head as materialized (
  select q.place, q.due_at, pg_catalog.octet_length(q.payload) as bytes,
    q.receipt is null and q.timeouts = 0 and q.attempts < $3 as fresh
  from "txbox".queue as q
  where q.due_at is not null and q.topic = $1::text and q.shard = 16::smallint and q.due_at > timestamptz 'epoch' and q.due_at <= pg_catalog.statement_timestamp()
  order by q.due_at, q.place
  limit $4
  for update skip locked
), asked as materialized (
  select exists (select from head where not head.fresh) or exists (
    select from pg_catalog.unnest($2::smallint[]) as asked (shard)
    cross join lateral (
  select q.due_at from "txbox".queue as q
  where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard and q.due_at >= timestamptz 'epoch'
  order by q.due_at, q.place
  limit 1
) as next
    where next.due_at <= pg_catalog.statement_timestamp()
  ) as more, pg_catalog.set_config('synchronous_commit', 'off', true)
), taken as (
  update "txbox".queue as q
  set receipt = $5::uuid, attempts = q.attempts + 1,
    due_at = pg_catalog.clock_timestamp() + $6::double precision * interval '1 millisecond'
  where q.place = any (array(
    select sized.place
    from (
      select head.place, pg_catalog.row_number() over first as n, pg_catalog.sum(head.bytes) over first as bytes
      from head
      where head.fresh
      window first as (order by head.due_at, head.place)
    ) as sized
    where sized.n = 1 or sized.bytes <= $7
  ))
  returning q.place::text as place, q.receipt::text as receipt, q.shard::text as shard,
  q.attempts::text as attempts, q.timeouts::text as timeouts,
  (q.order_key is not null)::text as ordered, q.id, q.topic, q.key, q.type, q.correlation_id, q.trace_context,
  nullif(q.content_type, 'application/json') as content_type, nullif(q.headers, '{}') as headers,
  (extract(epoch from least(greatest(q.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text as stamp,
  (extract(epoch from q.due_at) * 1000000::numeric)::bigint::text as due_us,
  pg_catalog.encode(q.payload, 'escape') as payload
)
select asked.more::text as more, taken.*
from asked
left join taken on true
