/*
 * PostgreSQL changes parked messages with one statement for each kind of change, and takes lists as arrays. MySQL and MariaDB
 * lock rows first, and take lists as JSON.
 */
import { dueAfter, stampIn, verdicts } from '../relay/backlog-statements.ts'
import { parkedParts, parkedReads } from '../relay/parked-statements.ts'
import { STILL_HELD, heldNow } from './held-lease-statements.ts'

const LOCAL_PARKED = { table: 'local_parked', byConsumer: true } as const

/**
 * All statements on the table of parked local messages, except those of producers. `schema` is quoted. The statements that
 * change rows begin with the lease ($1 to $3), the consumer ($4) and the shard ($5), and change only rows that they can lock
 * without waiting.
 */
export function localParkedStatements(schema: string) {
  const { parked, ofKey, inOrder, rows } = parkedParts(schema, LOCAL_PARKED)
  const held = heldNow(schema)
  /** Whether the row belongs to the shard. No condition for which the planner could take another index than that of places. */
  const isOf = (consumer: string, shard: string): string =>
    `case when p.consumer = ${consumer}::text and p.shard = ${shard}::smallint then true end`
  /**
   * Locks rows that are not dead. A row may have been updated after the snapshot of the statement, so the row is changed by its
   * place, and not by its address.
   */
  const locking = (wanted: string): string => `locked as materialized (
  select found.* from held cross join ${wanted} cross join lateral (
    select p.place from ${parked} as p
    where p.place = wanted.place and ${isOf('$4', '$5')} and ${stampIn('p')} = wanted.stamp
      and p.dead_at is null and held.found
    limit 1
    for update of p skip locked
  ) as found
)`
  const isLocked = 'p.place = any (array(select l.place from locked as l))'
  const done = (changed: string): string => `
select (select pg_catalog.string_agg(c.place::text, ',') from ${changed} as c) as done,
  (select pg_catalog.string_agg(l.place::text, ',') from locked as l where not exists (select from ${changed} as c where c.place = l.place)) as kept
from held`
  /** Makes the messages due that come first in their keys and wait. */
  const dueNow = (wanted: string): string => `locked as materialized (
  select found.place from held cross join ${wanted} cross join lateral (
    select p.place from ${parked} as p
    where p.place = wanted.place and p.due_at is null and p.dead_at is null and held.found
    limit 1
    for update of p skip locked
  ) as found
), released as (
  update ${parked} as p
  set due_at = pg_catalog.clock_timestamp()
  where ${isLocked}
  returning p.place
)`
  const nextKey = (after: string): string => `
    select f.order_key, f.place, f.due_at from ${parked} as f
    where f.consumer = $4::text and f.order_key is not null and (f.shard, f.order_key) > ($5::smallint, ${after})
      and f.shard <= $5::smallint
    ${inOrder}
    limit 1
  `
  return {
    ...parkedReads(schema, LOCAL_PARKED),

    /** Locks rows ($6 and $7) for a handler. */
    lock: `
with ${held}, ${locking(rows('$6', '$7'))}
select l.place::text as seq from locked as l cross join held where case when l.place is not null then ${STILL_HELD} end`,

    /** Like `lock`, without columns, because nothing reads the columns of a statement that travels with BEGIN. */
    lockUnseen: `
with ${held}, ${locking(rows('$6', '$7'))}
select from locked as l cross join held where case when l.place is not null then ${STILL_HELD} end`,

    /** Removes rows ($3 and $4) that the transaction has locked. */
    remove: `
delete from ${parked} as p
where p.place = any (array(
  select found.place
  from ${rows('$3', '$4')} cross join lateral (
    select p.place from ${parked} as p
    where p.place = wanted.place and ${isOf('$1', '$2')} and ${stampIn('p')} = wanted.stamp and p.dead_at is null
    limit 1
  ) as found
))
returning p.place::text as seq`,

    /** Makes messages ($6 and $7) wait behind their predecessors. */
    follow: `
with ${held}, ${locking(rows('$6', '$7'))}, following as (
  update ${parked} as p set due_at = null where ${isLocked} returning p.place
)${done('following')}`,

    /** Deletes accepted messages ($6 and $7). */
    settle: `
with ${held}, ${locking(rows('$6', '$7'))}, settled as (
  delete from ${parked} as p where ${isLocked} returning p.place
)${done('settled')}`,

    /** Keeps refused messages ($6 to $14). */
    keep: `
with ${held}, verdicts as materialized (
  ${verdicts('place', 6, ['unhandled'])}
), ${locking('verdicts as wanted')}, kept as (
  update ${parked} as p
  set attempts = v.attempts,
    error = v.error,
    errors = coalesce(v.errors, p.errors),
    suspect = v.suspect,
    unhandled = v.unhandled,
    due_at = ${dueAfter('v.retry_ms')},
    dead_at = case when v.dead then pg_catalog.clock_timestamp() end,
    order_key = case when not v.dead then p.order_key end
  from verdicts as v
  where ${isLocked} and p.place = v.place
  returning p.place
)${done('kept')}`,

    /** Marks messages ($6 and $7) as suspects. */
    suspect: `
with ${held}, ${locking(rows('$6', '$7'))}, suspected as (
  update ${parked} as p set suspect = true where ${isLocked} returning p.place
)${done('suspected')}`,

    /** The rows ($1 and $2) that still exist, without dead letters. */
    remainingRows: `
select found.seq::text as seq
from ${rows('$1', '$2')} cross join lateral (
  select p.place as seq from ${parked} as p
  where p.place = wanted.place and ${stampIn('p')} = wanted.stamp and p.dead_at is null
  limit 1
) as found`,

    /** Makes the first message of each of these keys ($6) due if that message waits. */
    release: `
with ${held}, heads as materialized (
  select next.place
  from held
  cross join pg_catalog.unnest($6::text[]) as onward (order_key)
  cross join lateral (
    select f.place, f.due_at from ${parked} as f
    where ${ofKey('$5', 'onward.order_key', '>', '0', '$4::text')}
    ${inOrder}
    limit 1
  ) as next
  where next.due_at is null
), ${dueNow('heads as wanted')}
select pg_catalog.count(*)::text as released from released`,

    /**
     * Makes the first message of each key due if that message waits. Examines at most $7 keys, beginning after the key
     * $6. The scan jumps from key to key along the index, so that its cost does not depend on the number of waiting
     * messages.
     */
    heal: `
with recursive ${held}, heads (n, order_key, place, due_at) as (
  select 1, onward.order_key, onward.place, onward.due_at
  from (${nextKey('$6::text')}) as onward
  union all
  select heads.n + 1, onward.order_key, onward.place, onward.due_at
  from heads
  cross join lateral (${nextKey('heads.order_key')}) as onward
  where heads.n < $7
), idle as materialized (
  select h.place from heads as h where h.due_at is null
), ${dueNow('idle as wanted')}
select (select pg_catalog.count(*) from released)::text as healed, (select pg_catalog.count(*) from heads)::text as keys,
  (select h.order_key from heads as h order by h.n desc limit 1) as last
from held`,

    /** Makes messages of these types ($2) due for which the consumer ($1) had no handler. */
    handled: `
with found as materialized (
  select p.place from ${parked} as p
  where p.consumer = $1::text and p.unhandled and p.type = any ($2::text[])
    -- In a way that only the index of these messages can be used.
    and case when p.dead_at is null and p.due_at > pg_catalog.clock_timestamp() then true end
  for update of p skip locked
)
update ${parked} as p
set due_at = pg_catalog.clock_timestamp()
where p.place = any (array(select f.place from found as f))`,
  } as const
}
