with found as materialized (
  select o.shard, o.seq from "txbox".local_outbox as o
  where o.consumer = $1 and ($2::text is null or o.type = $2) and (o.consumer, o.shard, o.seq) > ($1, $4::smallint, $5::bigint)
  order by o.consumer, o.shard, o.seq
  limit $6
  for update skip locked
), gone as (
  delete from "txbox".local_outbox as o
  using found
  where o.consumer = $1 and o.shard = found.shard and o.seq = found.seq
  returning o.seq
), recorded as (
  update "txbox".removals
  set discarded = discarded + (select pg_catalog.count(*) from gone)
  where number = $3::bigint and exists (select from gone)
)
select (select pg_catalog.count(*) from gone)::text as removed, (select pg_catalog.count(*) from found)::text as found,
  last.shard::text as shard, last.seq::text as seq
from (select pg_catalog.count(*) from gone) as all_gone
left join lateral (select f.shard, f.seq from found as f order by f.shard desc, f.seq desc limit 1) as last on true
