/* MySQL and MariaDB take lists as JSON, and need a branch for each key; PostgreSQL takes arrays. */
import type { Tables } from '../connection/identifiers.ts'
import {
  instant,
  messageColumns,
  placeIn,
  rowsTable,
  stampIn,
  unionAll,
  verdictsTable,
} from './relay-statements.ts'

/** The column of `verdictsTable` that only the verdicts on messages of local consumers have. */
export const UNHANDLED = "\n  unhandled tinyint path _utf8mb4'$.unhandled',"

/** All statements on the table of parked messages that a relay runs. `?` is replaced by a value as a literal. */
export function parkedStatements({ parked }: Tables) {
  return parkedStatementsOn({ parked, name: 'parked', shard: ['shard'], topic: 'topic', isUnhandled: false })
}

interface Parked {
  readonly parked: string
  /** The beginning of the names of the indexes. */
  readonly name: string
  /** The columns that identify a shard. */
  readonly shard: readonly string[]
  readonly topic: 'topic' | 'optional topic'
  /** Whether the table has the column `unhandled`. */
  readonly isUnhandled: boolean
}

/** The statements on parked messages: those of the outbox, or those of local consumers. */
export function parkedStatementsOn({ parked, name, shard, topic, isUnhandled }: Parked) {
  const place = placeIn(shard)
  const order = `${name}_order`
  const ordered = (table: string): string => shard.map((column) => `${table}.${column}`).join(', ')
  const columns = `${messageColumns('p', 'place', topic)},
  cast(p.attempts as char) as attempts, cast(p.order_key is not null as char) as ordered,
  cast(p.errors as binary) as errors`
  const firstOf = `(
    select f.place from ${parked} as f force index (${order})
    where ${place('f')} and f.order_key = p.order_key
    order by ${ordered('f')}, f.order_key, f.place
    limit 1
  )`
  /** The rows of a list that are still parked. The text belongs behind FROM. */
  const still = (list: string): string => `${rowsTable('place')} as ${list}
straight_join ${parked} as p force index (primary) on p.place = ${list}.place
where p.dead_at is null and ${stampIn('p')} = ${instant(`${list}.stamp`)}`
  return {
    /**
     * The due messages, those that have been due the longest first, each with the first message of its key. If another
     * message is the first, it was due before this message was put back. The subquery sorts by all columns of the
     * index; otherwise the optimizer would sort all messages of the key. A due suspect is included only if another
     * message of its key comes first.
     */
    due: `
select cast(p.place as char) as place, p.order_key as order_key, cast(p.attempts as char) as attempts,
  cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp,
  cast(${firstOf} as char) as first
from ${parked} as p force index (${name}_due)
where ${place('p')} and p.due_at <= utc_timestamp(6) and p.dead_at is null
  and (not p.suspect or ${firstOf} <> p.place)
order by p.due_at
limit ?`,

    /** Makes messages wait behind their predecessors. */
    follow: `
update ${rowsTable('place')} as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = null
where p.dead_at is null and ${stampIn('p')} = ${instant('j.stamp')}`,

    readAlone: `
select ${columns}, null as later
from ${still('j')}`,

    /**
     * Reads the messages of a released key, beginning with a given row. `later` marks a message that must be tried
     * alone, because it was refused before or is a suspect. Each key is a branch of `readAllOnward`.
     */
    readOnward: `
(select ${columns}, case when p.suspect or p.due_at > utc_timestamp(6) then '1' end as later
from ${parked} as p force index (${order})
where ${place('p')} and p.order_key = ? and p.place >= ?
  and exists (
    select 1 from ${parked} as h force index (primary)
    where h.place = ? and ${stampIn('h')} = ${instant('?')}
  )
order by p.place
limit ?)`,

    readAllOnward: unionAll,

    /** The suspect that has been due the longest, among the suspects that come first in their keys. */
    findSuspect: `
select cast(p.place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp
from ${parked} as p force index (${name}_suspect)
where ${place('p')} and p.suspect = 1 and p.due_at <= utc_timestamp(6) and p.dead_at is null
  and (p.order_key is null or p.place = ${firstOf})
order by p.due_at
limit 1`,

    /** Reads a payload that was only measured. Reads one at a time, because a row must fit into a packet. */
    readPayload: `
select p.payload as payload
from ${parked} as p
where p.place = ? and ${stampIn('p')} = ${instant('?')}`,

    remove: `
delete p
from ${still('gone')}`,

    keep: `
update ${verdictsTable('place', isUnhandled ? UNHANDLED : '')}
straight_join ${parked} as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.errors = ifnull(v.errors, p.errors),
  p.suspect = v.suspect,${isUnhandled ? '\n  p.unhandled = v.unhandled,' : ''}
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null and ${stampIn('p')} = ${instant('v.stamp')}`,

    /** Counts the rows that still exist, without dead letters. */
    remaining: `
select cast(count(*) as char) as remaining
from ${still('wanted')}`,

    /** The first message of a released key, and whether it waits. Each key is a branch of `nextOfAll`. */
    next: `
(select cast(p.place as char) as place, cast(p.due_at is null as char) as waits
from ${parked} as p force index (${order})
where ${place('p')} and p.order_key = ?
order by ${ordered('p')}, p.order_key, p.place
limit 1)`,

    nextOfAll: unionAll,

    /** Makes messages due that the same transaction has found. */
    release: `
update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.due_at is null and p.dead_at is null`,

    /**
     * Finds messages that are not suspects yet, by a plain read: the search of an UPDATE would lock all rows that it
     * passes.
     */
    unsuspected: `
select cast(p.place as char) as place
from ${parked} as p force index (primary)
where p.place >= ? and p.place <= ? and ${place('p')} and p.dead_at is null and not p.suspect
  and (p.due_at is null or p.due_at <= utc_timestamp(6))`,

    /** Marks messages that the same transaction has found. */
    suspect: `
update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.suspect = 1
where p.dead_at is null`,

    /**
     * The first messages of a limited number of keys, in the order of the keys, and whether they wait. The rows are
     * grouped by all columns that precede the place in the index, so that the server jumps from key to key, and the
     * cost does not depend on the number of waiting messages.
     */
    heads: `
select k.order_key as order_key, cast(k.place as char) as place, cast(p.due_at is null as char) as waits
from (
  select f.order_key as order_key, min(f.place) as place
  from ${parked} as f force index (${order})
  where ${place('f')} and f.order_key > ?
  group by ${ordered('f')}, f.order_key
  order by ${ordered('f')}, f.order_key
  limit ?
) as k
straight_join ${parked} as p force index (primary) on p.place = k.place
order by k.order_key`,
  } as const
}
