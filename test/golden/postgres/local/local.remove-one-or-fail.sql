with removed as (
  delete from "txbox".local_outbox as o
  where o.consumer = $1::text and o.shard = $2::smallint and o.seq = $3::bigint and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = $4::timestamptz
  returning 1
)
select
from (select pg_catalog.count(*) as rows from removed) as counted
where (case when counted.rows = 1 then 'true' else 'txbox: the message is gone' end)::boolean
