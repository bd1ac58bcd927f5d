with held as materialized (
  select given.shard, true as found
  from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($5::smallint[])) as given (name, owner, term, shard)
  join "txbox".leases as l on l.name = given.name and l.owner = given.owner and l.term = given.term
  where l.expires_at > pg_catalog.clock_timestamp()
), locked as materialized (
  select held.shard, found.*
  from held
  join rows from (pg_catalog.unnest($6::smallint[]), pg_catalog.unnest($7::bigint[]), pg_catalog.unnest($8::timestamptz[])) as wanted (shard, seq, stamp) on wanted.shard = held.shard
  cross join lateral (
    select o.seq, o.ctid as address from "txbox".local_outbox as o
    where o.consumer = $4::text and o.shard = held.shard and o.shard = wanted.shard and o.seq = wanted.seq
      and least(greatest(o.created_at, '1700-01-01T00:00:00Z'::timestamptz), '2200-01-01T00:00:00Z'::timestamptz) = wanted.stamp and held.found
    limit 1
    for update of o skip locked
  ) as found
), settled as (
  delete from "txbox".local_outbox as o
  where o.ctid = any (array(select l.address from locked as l))
  returning o.shard, o.seq
)
select held.shard::text as shard,
  (select pg_catalog.string_agg(s.seq::text, ',') from settled as s where s.shard = held.shard) as done,
  (
    select pg_catalog.string_agg(l.seq::text, ',') from locked as l
    where l.shard = held.shard and not exists (select from settled as s where s.shard = l.shard and s.seq = l.seq)
  ) as kept
from held
