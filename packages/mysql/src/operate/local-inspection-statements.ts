/* MySQL and MariaDB have indexes of all rows; PostgreSQL has partial indexes for dead letters and for unhandled types. */
import type { Tables } from '../connection/identifiers.ts'
import { parkedCounts } from './parked-count-statements.ts'

/**
 * The statements of `txbox status` and `txbox doctor` on local consumers. `?` is replaced by a value as a literal. Numbers are
 * returned as text.
 */
export function localInspectionStatements({ localOutbox, localParked, subscriptions }: Tables) {
  const count = (rows: string): string =>
    `(select cast(count(*) as char) from (select 1 ${rows} limit ?) as counted)`
  const parked = parkedCounts(localParked, 'local_parked_due_since', 'm.consumer = ? and ')
  const oldestOfShards = Array.from(
    { length: 16 },
    (_, shard) =>
      `(select id, topic, created_at from ${localOutbox} where consumer = ? and shard = ${shard} order by seq limit 1)`,
  )
  return {
    /** The first consumer after a name that has messages, dead letters or subscriptions; null if there is none. */
    nextLocal: `
select hex(min(first.consumer)) as consumer
from (
  (select o.consumer from ${localOutbox} as o force index (primary) where o.consumer > ? order by o.consumer limit 1)
  union all
  (
    select m.consumer from ${localParked} as m force index (local_parked_due_since)
    where m.consumer > ?
    order by m.consumer
    limit 1
  )
  union all
  (select min(s.consumer) from ${subscriptions} as s where s.consumer > ?)
) as first`,

    /** Dead letters have no `due_since`. */
    localFigures: `
select
  ${count(`from ${localOutbox} as o force index (primary) where o.consumer = ?`)} as waiting,
  ${parked.columns},
  ${count(`from ${localParked} as m force index (local_parked_due_since) where m.consumer = ? and m.due_since is null`)} as dead,
  (
    select cast(timestampdiff(microsecond, min(created_at), utc_timestamp(6)) div 1000 as char)
    from (${oldestOfShards.join('\n      union all ')}) as first
  ) as oldest_ms
${parked.from}`,

    /** The types that are registered for a consumer. */
    localTypes: `
select s.type as type
from ${subscriptions} as s
where s.consumer = ?
order by s.type
limit 1000`,

    /** Types for which a consumer has no handler, among a limited number of parked messages. */
    unhandledTypes: `
select distinct cast(found.type as binary) as type
from (
  select m.type from ${localParked} as m force index (local_parked_unhandled)
  where m.consumer = ? and m.unhandled = 1 and m.type is not null
  limit 10000
) as found
order by type
limit 10`,

    /** The message of a consumer that has been due the longest: the oldest one that waits, or that is parked. */
    oldestInLocal: `
select cast('local' as binary) as part, hex(oldest.id) as id, cast(oldest.topic as binary) as topic,
  cast(timestampdiff(microsecond, oldest.since, utc_timestamp(6)) div 1000 as char) as age_ms
from (
  (
    select cast(first.id as binary) as id, first.topic, first.created_at as since
    from (${oldestOfShards.join('\n      union all ')}) as first
    order by first.created_at
    limit 1
  )
  union all
  (
    select m.id, m.topic, m.due_since
    from ${localParked} as m force index (local_parked_due_since)
    where m.consumer = ? and m.due_since <= utc_timestamp(6)
    order by m.due_since
    limit 1
  )
) as oldest
order by oldest.since
limit 1`,
  } as const
}
