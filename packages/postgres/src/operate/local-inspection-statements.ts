/* PostgreSQL has partial indexes for dead letters and for unhandled types; MySQL and MariaDB have indexes of all rows. */
import { DUE_SINCE, parkedCounts } from './parked-count-statements.ts'

/** The statements of `txbox status` and `txbox doctor` on local consumers. `schema` is quoted. Numbers are returned as text. */
export function localInspectionStatements(schema: string) {
  /** Counts rows, but at most $1. */
  const count = (rows: string): string =>
    `(select pg_catalog.count(*) from (select ${rows} limit $1) as counted)::text`
  const ms = (interval: string): string =>
    `pg_catalog.floor(pg_catalog.date_part('epoch', ${interval}) * 1000::double precision)::bigint::text`
  const parked = parkedCounts(`${schema}.local_parked`, 'm.consumer = $2 and ')
  const unhandled = `from ${schema}.local_parked as m where m.unhandled and m.consumer = $1`
  return {
    /** The first consumer after $1 that has messages, dead letters or subscriptions; null if there is none. */
    nextLocal: `
select least(
  (select o.consumer from ${schema}.local_outbox as o where o.consumer > $1 order by o.consumer, o.shard, o.seq limit 1),
  (
    select m.consumer from ${schema}.local_parked as m
    where m.dead_at is null and m.consumer > $1
    order by m.consumer, ${DUE_SINCE}
    limit 1
  ),
  (
    select m.consumer from ${schema}.local_parked as m
    where m.dead_at is not null and m.consumer > $1
    order by m.consumer, m.id, m.place
    limit 1
  ),
  (select pg_catalog.min(s.consumer) from ${schema}.subscriptions as s where s.consumer > $1)
) as consumer`,

    /** The figures of a consumer ($2). */
    localFigures: `
select
  ${count(`from ${schema}.local_outbox as o where o.consumer = $2`)} as waiting,
  ${parked.columns},
  ${count(`from ${schema}.local_parked as m where m.consumer = $2 and m.dead_at is not null`)} as dead,
  (
    select ${ms('pg_catalog.clock_timestamp() - pg_catalog.min(first.created_at)')}
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.created_at from ${schema}.local_outbox as o
      where o.consumer = $2 and o.shard = shards.shard
      order by o.seq
      limit 1
    ) as first
  ) as oldest_ms
${parked.from}`,

    /** The types that are registered for a consumer ($1). */
    localTypes: `
select s.type
from ${schema}.subscriptions as s
where s.consumer = $1
order by s.type
limit 1000`,

    /**
     * Types of parked messages for which a consumer ($1) has no handler. The scan jumps from type to type, so that its cost does
     * not depend on the number of messages.
     */
    unhandledTypes: `
with recursive types as (
  (select m.type ${unhandled} order by m.type limit 1)
  union all
  select (select m.type ${unhandled} and m.type > types.type order by m.type limit 1)
  from types
  where types.type is not null
)
select types.type
from types
where types.type is not null
limit 10`,

    /** The message of a consumer ($1) that has been due the longest: the oldest one that waits, or that is parked. */
    oldestInLocal: `
select 'local' as part, oldest.id, oldest.topic,
  ${ms('pg_catalog.clock_timestamp() - oldest.since')} as age_ms
from (
  (
    select first.id, first.topic, first.created_at as since
    from pg_catalog.generate_series(0, 15) as shards (shard)
    cross join lateral (
      select o.id, o.topic, o.created_at from ${schema}.local_outbox as o
      where o.consumer = $1 and o.shard = shards.shard
      order by o.seq
      limit 1
    ) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select m.id, m.topic, ${DUE_SINCE}
    from ${schema}.local_parked as m
    where m.dead_at is null and m.consumer = $1 and ${DUE_SINCE} <= pg_catalog.statement_timestamp()
    order by ${DUE_SINCE}
    limit 1
  )
) as oldest
order by oldest.since
limit 1`,
  } as const
}
