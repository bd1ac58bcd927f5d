/* As for the outbox, MySQL and MariaDB take lists as JSON and one branch for each key, and PostgreSQL takes arrays. */
import type { Tables } from './identifiers.ts'
import { instant, messageColumns, rowsTable, stampIn, unionAll, verdictsTable } from './relay-statements.ts'

/**
 * Every statement on the table of parked messages that a relay runs. `?` is replaced by a value as a literal.
 */
export function parkedStatements({ parked }: Tables) {
  const columns = `${messageColumns('p', 'place')},
  cast(p.attempts as char) as attempts, cast(p.order_key is not null as char) as ordered,
  cast(p.errors as binary) as errors`
  const firstOf = (shard: string): string => `(
    select f.place from ${parked} as f force index (parked_order)
    where f.shard = ${shard} and f.order_key = p.order_key
    order by f.shard, f.order_key, f.place
    limit 1
  )`
  return {
    /**
     * What is due, longest first, and which message comes first in its key: if that is another, it was due before this
     * one was put back. In the order of the whole index, or the optimizer would sort all of the key. A suspect that is
     * due is here only when another comes first.
     */
    due: `
select cast(p.place as char) as place, p.order_key as order_key, cast(p.attempts as char) as attempts,
  cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp,
  cast(${firstOf('?')} as char) as first
from ${parked} as p force index (parked_due)
where p.shard = ? and p.due_at <= utc_timestamp(6) and p.dead_at is null
  and (not p.suspect or ${firstOf('?')} <> p.place)
order by p.due_at
limit ?`,

    /** It waits behind its predecessor, like the others. */
    follow: `
update ${rowsTable('place')} as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = null
where p.dead_at is null and ${stampIn('p')} = ${instant('j.stamp')}`,

    /** Single messages. */
    readAlone: `
select ${columns}, null as later
from ${rowsTable('place')} as j
straight_join ${parked} as p force index (primary) on p.place = j.place
where p.dead_at is null and ${stampIn('p')} = ${instant('j.stamp')}`,

    /**
     * The messages of a released key, from a row on. `later` marks a message that must be tried alone, because it was
     * refused before or is a suspect. A branch for each key.
     */
    readOnward: `
(select ${columns}, case when p.suspect or p.due_at > utc_timestamp(6) then 1 end as later
from ${parked} as p force index (parked_order)
where p.shard = ? and p.order_key = ? and p.place >= ?
  and exists (
    select 1 from ${parked} as h force index (primary)
    where h.place = ? and ${stampIn('h')} = ${instant('?')}
  )
order by p.place
limit ?)`,

    /** The branches of several keys in one statement. */
    readAllOnward: unionAll,

    /** The suspect that has been due the longest, among the suspects that come first in their keys. */
    findSuspect: `
select cast(p.place as char) as place, cast(timestampdiff(microsecond, '1970-01-01', p.created_at) as char) as stamp
from ${parked} as p force index (parked_suspect)
where p.shard = ? and p.suspect = 1 and p.due_at <= utc_timestamp(6) and p.dead_at is null
  and (p.order_key is null or p.place = ${firstOf('?')})
order by p.due_at
limit 1`,

    /** A payload that was only measured. One at a time: a row must fit into a packet. */
    readPayload: `
select p.payload as payload
from ${parked} as p
where p.place = ? and ${stampIn('p')} = ${instant('?')}`,

    /** Deletes accepted messages. */
    remove: `
delete p
from ${rowsTable('place')} as gone
straight_join ${parked} as p force index (primary) on p.place = gone.place
where p.dead_at is null and ${stampIn('p')} = ${instant('gone.stamp')}`,

    /** Updates refused messages. */
    keep: `
update ${verdictsTable('place')}
straight_join ${parked} as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.errors = ifnull(v.errors, p.errors),
  p.suspect = v.suspect,
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null and ${stampIn('p')} = ${instant('v.stamp')}`,

    /** How many of these rows are there, dead letters aside. */
    remaining: `
select cast(count(*) as char) as remaining
from ${rowsTable('place')} as wanted
straight_join ${parked} as p force index (primary) on p.place = wanted.place
where p.dead_at is null and ${stampIn('p')} = ${instant('wanted.stamp')}`,

    /** The first message of a released key. A branch for each key. */
    next: `
(select cast(p.place as char) as place, p.due_at is null as waits
from ${parked} as p force index (parked_order)
where p.shard = ? and p.order_key = ?
order by p.shard, p.order_key, p.place
limit 1)`,

    /** The branches of several keys in one statement. */
    nextOfAll: unionAll,

    /** In the transaction that has found them. */
    release: `
update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.due_at is null and p.dead_at is null`,

    /**
     * Messages that are not suspects yet. A plain read finds them: the search of an UPDATE would lock the rows that it
     * passes.
     */
    unsuspected: `
select cast(p.place as char) as place
from ${parked} as p force index (primary)
where p.place >= ? and p.place <= ? and p.shard = ? and p.dead_at is null and not p.suspect
  and (p.due_at is null or p.due_at <= utc_timestamp(6))`,

    /** In the transaction that has found them. */
    suspect: `
update json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.suspect = 1
where p.dead_at is null`,

    /**
     * The first messages of a limited number of keys, in the order of the keys, and whether they wait. Grouped by all
     * columns that the index has before the place, so that the server jumps from key to key, and the cost does not
     * depend on the number of waiting messages.
     */
    heads: `
select k.order_key as order_key, cast(k.place as char) as place, p.due_at is null as waits
from (
  select f.order_key as order_key, min(f.place) as place
  from ${parked} as f force index (parked_order)
  where f.shard = ? and f.order_key > ?
  group by f.shard, f.order_key
  order by f.shard, f.order_key
  limit ?
) as k
straight_join ${parked} as p force index (primary) on p.place = k.place
order by k.order_key`,
  } as const
}
