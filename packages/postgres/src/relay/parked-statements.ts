/*
 * PostgreSQL settles in one statement, and takes lists as arrays; MySQL and MariaDB take lists as JSON, and need a
 * branch for each key.
 */
import {
  boundedPayload,
  dueAfter,
  heldLease,
  messageColumns,
  stampIn,
  stampOf,
  verdicts,
} from './backlog-statements.ts'

/** All statements on the table of parked messages that a relay runs. `schema` is quoted. */
export function parkedStatements(schema: string) {
  const { parked, ofKey, inOrder, found, rows } = parkedParts(schema, PARKED)
  const held = heldLease(schema)
  const addressesOf = (wanted: string): string => `
    select found.ctid
    from held cross join ${found(wanted)}
  `
  return {
    ...parkedReads(schema, PARKED),

    /** Makes messages wait behind their predecessors. */
    follow: `
with ${held}, following as (
  update ${parked} as p
  set due_at = null
  where p.ctid = any (array(${addressesOf(rows('$4', '$5'))})) and p.dead_at is null
)
select 'true' as held from held`,

    suspect: `
with ${held}, suspected as (
  update ${parked} as p
  set suspect = true
  from held
  where p.shard = $4 and p.place >= $5::bigint and p.place <= $6::bigint and p.dead_at is null and not p.suspect
    and (p.due_at is null or p.due_at <= pg_catalog.statement_timestamp())
)
select 'true' as held from held`,

    /**
     * Deletes accepted messages ($4 and $5), keeps refused ones ($6 to $13), and makes the first message of each
     * released key ($14) due if that message waits. $15 is the shard.
     */
    settle: `
with ${held}, verdicts as materialized (
  ${verdicts('place', 6)}
), settled as (
  delete from ${parked} as p
  where p.ctid = any (array(${addressesOf(rows('$4', '$5'))})) and p.dead_at is null
  returning p.place
), kept as (
  update ${parked} as p
  set attempts = v.attempts,
    error = v.error,
    errors = coalesce(v.errors, p.errors),
    suspect = v.suspect,
    due_at = ${dueAfter('v.retry_ms')},
    dead_at = case when v.dead then pg_catalog.clock_timestamp() end,
    order_key = case when not v.dead then p.order_key end
  from verdicts as v
  where p.ctid = any (array(${addressesOf('verdicts as wanted')})) and p.place = v.place and p.dead_at is null
  returning p.place, p.order_key
), released as (
  update ${parked}
  set due_at = pg_catalog.clock_timestamp()
  where place = any (array(
    select next.place
    from held
    cross join pg_catalog.unnest($14::text[]) as onward (order_key)
    cross join lateral (
      select f.place, f.due_at from ${parked} as f
      where ${ofKey('$15', 'onward.order_key', '>', '0')}
        -- All of this statement sees the table as it was before.
        and not exists (select from settled as s where s.place = f.place)
        and not exists (select from kept as k where k.place = f.place and k.order_key is null)
      ${inOrder}
      limit 1
    ) as next
    where next.due_at is null and not exists (select from kept as k where k.place = next.place)
  ))
)
select (select pg_catalog.string_agg(s.place::text, ',') from settled as s) as settled,
  (select pg_catalog.string_agg(k.place::text, ',') from kept as k) as kept
from held`,

    /**
     * Makes the first message of each key due if that message waits. Examines at most $6 keys, beginning after the key
     * $5. The scan jumps from key to key along the index, so that its cost does not depend on the number of waiting
     * messages.
     */
    heal: `
with recursive ${held}, heads (n, order_key, place, due_at) as (
  select 1, onward.order_key, onward.place, onward.due_at
  from (
    select f.order_key, f.place, f.due_at from ${parked} as f
    where f.order_key is not null and (f.shard, f.order_key) > ($4::smallint, $5::text) and f.shard <= $4::smallint
    ${inOrder}
    limit 1
  ) as onward
  union all
  select heads.n + 1, onward.order_key, onward.place, onward.due_at
  from heads
  cross join lateral (
    select f.order_key, f.place, f.due_at from ${parked} as f
    where f.order_key is not null and (f.shard, f.order_key) > ($4::smallint, heads.order_key) and f.shard <= $4::smallint
    ${inOrder}
    limit 1
  ) as onward
  where heads.n < $6
), healed as (
  update ${parked} as p
  set due_at = pg_catalog.clock_timestamp()
  where p.place = any (array(select heads.place from held cross join heads where heads.due_at is null))
    and p.due_at is null and p.dead_at is null
  returning p.place
)
select (select pg_catalog.count(*) from healed)::text as healed, (select pg_catalog.count(*) from heads)::text as keys,
  (select heads.order_key from heads order by heads.n desc limit 1) as last
from held`,
  } as const
}

/** Where parked messages are. */
export interface ParkedTable {
  readonly table: 'parked' | 'local_parked'
  /** Whether the table has rows of several consumers, each with shards of its own. */
  readonly byConsumer: boolean
}

const PARKED: ParkedTable = { table: 'parked', byConsumer: false }

/** The parts that statements on parked messages have in common. */
export function parkedParts(schema: string, { table }: Pick<ParkedTable, 'table'>) {
  const parked = `${schema}.${table}`
  /**
   * The rows of a key from a place on, in order. With an equality on the key, the planner may scan the places of all
   * keys, or sort the whole key. With a comparison of rows as the upper bound, PostgreSQL before 18 goes on to the end of
   * the shard if the key has no such row.
   */
  const ofKey = (
    shard: string,
    key: string,
    comparison: '>' | '>=',
    place: string,
    consumer?: string,
  ): string =>
    `${consumer === undefined ? '' : `f.consumer = ${consumer} and `}f.order_key is not null and f.shard = ${shard}::smallint
      and (f.order_key, f.place) ${comparison} (${key}, ${place}) and f.order_key <= ${key}`
  const inOrder = 'order by f.shard, f.order_key, f.place'
  const firstOf = (what: string, shard: string, key: string, consumer?: string): string => `
    select ${what} from ${parked} as f
    where ${ofKey(shard, key, '>', '0', consumer)}
    ${inOrder}
    limit 1
  `
  /**
   * Finds rows by place and stamp, with one index lookup for each, because a join may scan the table. Only the owner of
   * the shard changes rows that are not dead.
   */
  const found = (wanted: string): string => `${wanted} cross join lateral (
      select f.ctid from ${parked} as f
      where f.place = wanted.place and ${stampIn('f')} = wanted.stamp and f.dead_at is null
      limit 1
    ) as found`
  const rows = (places: string, stamps: string): string =>
    `rows from (pg_catalog.unnest(${places}::bigint[]), pg_catalog.unnest(${stamps}::timestamptz[])) as wanted (place, stamp)`
  return { parked, ofKey, inOrder, firstOf, found, rows }
}

/** The statements that read parked messages. Their last parameter is the consumer, if `byConsumer`. */
export function parkedReads(schema: string, place: ParkedTable) {
  const { parked, ofKey, inOrder, firstOf, found, rows } = parkedParts(schema, place)
  const columns = `p.place::text as seq, p.attempts::text as attempts, p.errors,
  (p.order_key is not null)::text as ordered, ${messageColumns('p')}`
  const consumer = (parameter: string): string | undefined =>
    place.byConsumer ? `${parameter}::text` : undefined
  const ofConsumer = (parameter: string): string =>
    place.byConsumer ? `p.consumer = ${parameter}::text and ` : ''
  return {
    /**
     * The due messages, those that have been due the longest first, each with the first message of its key. If another
     * message is the first, it was due before this message was put back. A due suspect is included only if another
     * message of its key comes first.
     */
    due: `
select p.place::text as place, p.order_key, p.attempts::text as attempts, ${stampOf('p')} as stamp,
  first.place::text as first
from ${parked} as p
left join lateral (${firstOf('f.place', '$1', 'p.order_key', consumer('$3'))}) as first on true
where ${ofConsumer('$3')}p.shard = $1 and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
  and (not p.suspect or first.place <> p.place)
order by p.due_at
limit $2`,

    /** Reads single messages, which are tried alone. */
    readAlone: `
select ${columns},
  ${boundedPayload('p', '$3')}, null as later
from ${parked} as p
where p.place = any ($1::bigint[])
  and (p.place, ${stampIn('p')}) in (select pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[]))
  and p.dead_at is null`,

    /**
     * Reads the messages of released keys ($2), beginning with a given row of each key ($3 and $6), at most $4 per key.
     * `later` marks a message that must be tried alone, because it was refused before or is a suspect.
     */
    readOnward: `
select ${columns},
  ${boundedPayload('p', '$5')},
  case when p.suspect or p.due_at > pg_catalog.statement_timestamp() then 'true' end as later
from rows from (pg_catalog.unnest($2::text[]), pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($6::timestamptz[])) with ordinality as onward (order_key, place, stamp, n)
cross join lateral (
  select true from ${parked} as h
  where h.place = onward.place and ${stampIn('h')} = onward.stamp
  limit 1
) as head
cross join lateral (
  -- From row to row: for a range of rows, the planner may sort the whole key if statistics are missing.
  with recursive places (n, place) as (
    (
      select 1, f.place from ${parked} as f
      where ${ofKey('$1', 'onward.order_key', '>=', 'onward.place', consumer('$7'))}
      ${inOrder}
      limit 1
    )
    union all
    select places.n + 1, next.place
    from places
    cross join lateral (
      select f.place from ${parked} as f
      where ${ofKey('$1', 'onward.order_key', '>', 'places.place', consumer('$7'))}
      ${inOrder}
      limit 1
    ) as next
    where places.n < $4
  )
  select f.* from places
  cross join lateral (
    select * from ${parked} as f
    where f.place = places.place
    limit 1
  ) as f
) as p
order by onward.n, p.place`,

    /** The suspect that has been due the longest, among the suspects that come first in their keys. */
    readSuspect: `
select ${columns},
  ${boundedPayload('p', '$2')}, null as later
from ${parked} as p
where ${ofConsumer('$3')}p.shard = $1 and p.suspect and p.due_at is not null and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
  and (p.order_key is null or p.place = (${firstOf('f.place', '$1', 'p.order_key', consumer('$3'))}))
order by p.due_at
limit 1`,

    /** Reads the payloads that were only measured. */
    readPayloads: `
select p.place::text as seq, pg_catalog.encode(p.payload, 'hex') as payload
from ${parked} as p
where p.place = any ($1::bigint[])
  and (p.place, ${stampIn('p')}) in (select pg_catalog.unnest($1::bigint[]), pg_catalog.unnest($2::timestamptz[]))`,

    /** Counts the rows that still exist, without dead letters. */
    remaining: `
select pg_catalog.count(*)::text as remaining
from ${found(rows('$1', '$2'))}`,
  } as const
}
