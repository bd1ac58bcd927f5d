/* PostgreSQL looks at waiting and parked messages by one statement. MySQL and MariaDB lock rows in statements of their own. */

/**
 * Whether none of the first 1000 waiting ($1 to $3) and parked messages of a key is locked by another transaction. The locks end
 * with the transaction of this statement. The planner must not know the limit: see `backlogReads`.
 */
export function unlockedKey(schema: string): string {
  return `
with ours as materialized (
  select o.seq from ${schema}.local_outbox as o
  where o.consumer = $1::text and (o.shard, o.seq) >= ($2::smallint, 0) and o.shard <= $2::smallint
    and case when o.key = $3::text then true end
  order by o.shard, o.seq
  limit (select 1000::bigint)
), locked as materialized (
  select found.seq from ours cross join lateral (
    select o.seq from ${schema}.local_outbox as o
    where o.consumer = $1::text and o.shard = $2::smallint and o.seq = ours.seq
    limit 1
    for update of o skip locked
  ) as found
), ours_parked as materialized (
  select p.place from ${schema}.local_parked as p
  where p.consumer = $1::text and p.shard = $2::smallint and p.order_key = $3::text
  order by p.consumer, p.shard, p.order_key, p.place
  limit (select 1000::bigint)
), locked_parked as materialized (
  select found.place from ours_parked cross join lateral (
    select p.place from ${schema}.local_parked as p
    where p.place = ours_parked.place
    limit 1
    for update of p skip locked
  ) as found
)
select ((select pg_catalog.count(*) from ours) = (select pg_catalog.count(*) from locked)
  and (select pg_catalog.count(*) from ours_parked) = (select pg_catalog.count(*) from locked_parked))::text as unlocked`
}
