/* PostgreSQL finds, locks, deletes and counts in one statement; MySQL and MariaDB need a transaction of several. */

/** The statements that end subscriptions of local consumers. `schema` is quoted. Numbers are returned as text. */
export function removalStatements(schema: string) {
  const ofType = (row: string, parameter: string): string =>
    `(${parameter}::text is null or ${row}.type = ${parameter})`
  const parked = `from ${schema}.local_parked as m where m.consumer = $2 and ${ofType('m', '$3')}`
  const recorded = (record: string): string => `recorded as (
  update ${schema}.removals
  set discarded = discarded + (select pg_catalog.count(*) from gone)
  where number = ${record}::bigint and exists (select from gone)
)`
  return {
    /** Whether a consumer ($2) has a subscription of a type ($3; null: of any), and its messages, at most $1. */
    count: `
select exists (select from ${schema}.subscriptions as s where s.consumer = $2 and ${ofType('s', '$3')})::text as subscribed,
  (select pg_catalog.count(*) from (
    select from ${schema}.local_outbox as o where o.consumer = $2 and ${ofType('o', '$3')}
    union all select ${parked} and m.dead_at is null
    limit $1
  ) as counted)::text as waiting,
  (select pg_catalog.count(*) from (select ${parked} and m.dead_at is not null limit $1) as counted)::text as dead`,

    /** Ends subscriptions of a consumer ($1) to a type ($2; null: to all), and records the operator ($3). */
    end: `
with gone as (
  delete from ${schema}.subscriptions as s
  where s.consumer = $1 and ${ofType('s', '$2')}
)
insert into ${schema}.removals (discarded, consumer, type, removed_by)
values (0, $1, $2, $3)
returning number::text as number`,

    /** Every transaction that has read the subscriptions holds a lock on the table until it ends. */
    readers: `
select distinct l.virtualtransaction as id
from pg_catalog.pg_locks as l
where l.locktype = 'relation' and l.relation = '${schema.replaceAll("'", "''")}.subscriptions'::regclass::oid
  and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
  and l.pid <> pg_catalog.pg_backend_pid()`,

    /** Deletes waiting messages of a consumer ($1) after the shard $4 and the number $5. $6 is the limit. */
    discardWaiting: `
with found as materialized (
  select o.shard, o.seq from ${schema}.local_outbox as o
  where o.consumer = $1 and ${ofType('o', '$2')} and (o.consumer, o.shard, o.seq) > ($1, $4::smallint, $5::bigint)
  order by o.consumer, o.shard, o.seq
  limit $6
  for update skip locked
), gone as (
  delete from ${schema}.local_outbox as o
  using found
  where o.consumer = $1 and o.shard = found.shard and o.seq = found.seq
  returning o.seq
), ${recorded('$3')}
select (select pg_catalog.count(*) from gone)::text as removed, (select pg_catalog.count(*) from found)::text as found,
  last.shard::text as shard, last.seq::text as seq
from (select pg_catalog.count(*) from gone) as all_gone
left join lateral (select f.shard, f.seq from found as f order by f.shard desc, f.seq desc limit 1) as last on true`,

    /** Deletes parked messages of a consumer ($1), dead letters included, after the place $4. $5 is the limit. */
    discardParked: `
with found as materialized (
  select m.place from ${schema}.local_parked as m
  where m.consumer = $1 and ${ofType('m', '$2')} and m.place > $4::bigint
  order by m.place
  limit $5
  for update skip locked
), gone as (
  delete from ${schema}.local_parked as m
  using found
  where m.place = found.place
  returning m.place
), ${recorded('$3')}
select (select pg_catalog.count(*) from gone)::text as removed, (select pg_catalog.count(*) from found)::text as found,
  (select pg_catalog.max(f.place) from found as f)::text as place`,
  } as const
}
