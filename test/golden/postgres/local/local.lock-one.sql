with locked as materialized (
  select o.seq
  from "txbox".local_outbox as o
  where o.consumer = $4::text and o.shard = $5::smallint and o.seq = $6::bigint and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = $7::timestamptz
    and exists (
      select from "txbox".leases as l
      where l.name = $1 and l.owner = $2 and l.term = $3::bigint and l.expires_at > pg_catalog.clock_timestamp()
    )
  for update of o skip locked
)
select locked.seq::text as seq
from locked
where (select l.expires_at from "txbox".leases as l where l.name = $1 and l.owner = $2 and l.term = $3::bigint) > pg_catalog.clock_timestamp()
