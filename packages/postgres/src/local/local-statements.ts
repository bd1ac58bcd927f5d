/*
 * PostgreSQL locks rows with SKIP LOCKED in any part of a statement, and takes lists as arrays. MySQL and MariaDB lock rows in
 * statements of their own, and take lists as JSON.
 */
import {
  backlogReads,
  dueAfter,
  heldLease,
  literal,
  serverIdentity,
  stampIn,
  verdicts,
  type Backlog,
} from '../relay/backlog-statements.ts'
import { LEASE_LOST, STILL_HELD, heldNow } from './held-lease-statements.ts'
import { sharedSettlement } from './shared-settlement-statements.ts'
import { unlockedKey } from './unlocked-key-statements.ts'

const LOCAL: Backlog = {
  outbox: 'local_outbox',
  parked: 'local_parked',
  sequence: 'local_outbox_seq',
  byConsumer: true,
}

/** The columns that a row keeps when it is parked. */
const KEPT_COLUMNS = 'id, topic, key, type, content_type, headers, correlation_id, trace_context'
const KEPT = KEPT_COLUMNS.split(', ')
  .map((column) => `m.${column}`)
  .join(', ')

/**
 * All statements on the table of waiting local messages, except those of producers. `schema` is quoted. The statements that
 * change rows begin with the lease ($1 to $3), the consumer ($4) and the shard ($5). They change only rows that they can lock
 * without waiting, because a handler holds the lock on its row for as long as the handler runs.
 */
export function localStatements(schema: string) {
  const outbox = `${schema}.local_outbox`
  const parked = `${schema}.local_parked`
  const held = heldNow(schema)
  const server = serverIdentity(schema, LOCAL)
  const { read, readPayloads, server: askServer } = backlogReads(schema, LOCAL)
  const rows = (seqs: string, stamps: string): string =>
    `rows from (pg_catalog.unnest(${seqs}::bigint[]), pg_catalog.unnest(${stamps}::timestamptz[])) as wanted (seq, stamp)`
  /**
   * Finds rows by number and stamp, with one lookup for each. For a list, the planner may scan the whole shard if
   * statistics are missing. A row is never updated, so its address does not change.
   */
  const found = (
    wanted: string,
    what: string,
    [consumer, shard]: readonly [string, string],
    more = '',
  ): string =>
    `${wanted} cross join lateral (
      select ${what} from ${outbox} as o
      where o.consumer = ${consumer}::text and o.shard = ${shard}::smallint and o.seq = wanted.seq and ${stampIn('o')} = wanted.stamp${more}
      limit 1`
  const plain = (
    wanted: string,
    what: string,
    at: readonly [string, string] = ['$4', '$5'],
  ): string => `${found(wanted, what, at)}
    ) as found`
  /** The condition on the lease is part of the lookup, so that no plan locks a row before the lease was read. */
  const locking = (
    wanted: string,
    what: string,
  ): string => `${found(wanted, what, ['$4', '$5'], ' and held.found')}
      for update of o skip locked
    ) as found`
  /**
   * Locks one row. The plan evaluates a subquery without references to the row before it reads, and locks, the row. The clock is
   * read again behind the lock: a lease that expired in between may have another owner, who has found the row unlocked.
   */
  const lockingOne = (columns: string): string => `
with locked as materialized (
  select o.seq
  from ${outbox} as o
  where o.consumer = $4::text and o.shard = $5::smallint and o.seq = $6::bigint and ${stampIn('o')} = $7::timestamptz
    and exists (
      select from ${schema}.leases as l
      where l.name = $1 and l.owner = $2 and l.term = $3::bigint and l.expires_at > pg_catalog.clock_timestamp()
    )
  for update of o skip locked
)
select ${columns}
from locked
where (select l.expires_at from ${schema}.leases as l where l.name = $1 and l.owner = $2 and l.term = $3::bigint) > pg_catalog.clock_timestamp()`
  /**
   * Rows to move ($wanted) that are locked, and come before no row of their key that is not: a row that overtakes another one
   * of its key on the way to the parked messages would be handled before it.
   */
  const movable = (wanted: string): string => `locked as materialized (
  select found.* from held cross join ${locking(wanted, 'o.seq, o.key, o.ctid as address')}
), missed as materialized (
  select found.* from held cross join ${plain(wanted, 'o.seq, o.key')}
  where not exists (select from locked as l where l.seq = found.seq)
), movable as materialized (
  select l.* from locked as l
  where not exists (select from missed as m where m.key = l.key and m.seq < l.seq)
)`
  const moved = `moved as (
  delete from ${outbox} as o
  where o.ctid = any (array(select m.address from movable as m))
  returning o.*
)`
  const result = `
select (select pg_catalog.string_agg(m.seq::text, ',') from moved as m) as done,
  (select pg_catalog.string_agg(l.seq::text, ',') from movable as l where not exists (select from moved as m where m.seq = l.seq)) as kept,
  (case when (select pg_catalog.count(*) from moved) <> (select pg_catalog.count(*) from stored)
    then 'Something keeps messages from being parked.' end)::boolean::text as lost
from held`
  return {
    server: askServer,
    read,
    readPayloads,

    /**
     * The open transactions that have drawn a number, and the last number that was drawn before they were looked up. A
     * transaction that draws a number keeps a lock on the sequence until the transaction ends. Handlers that only delete
     * have no such lock. OFFSET keeps the lookup behind the last number.
     */
    openWriters: `
select now.server, now.last, l.writer, l.prepared
from (select ${server.identity} as server, ${server.last}::text as last offset 0) as now
left join lateral (
  select l.virtualtransaction as writer, (l.pid is null)::text as prepared
  from pg_catalog.pg_locks as l
  where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted and now.server is not null
    and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
    and l.relation = ${literal(`${schema}.local_outbox_seq`)}::regclass::oid
) as l on true`,

    /**
     * The shards ($1 and $2) that have messages, each searched from the number where its reads start ($3), and whether parked
     * messages are due. Fails on a server other than $4, and if numbers up to $5 have not been assigned.
     */
    work: `
select asked.n::text as n, waiting::text as waiting, due::text as due
from rows from (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::bigint[]))
  with ordinality as asked (consumer, shard, start, n)
cross join lateral (
  select
    -- In order, which only the primary key gives; an EXISTS would be free to scan.
    (
      select true from ${outbox} as o
      where o.consumer = asked.consumer and o.shard = asked.shard and o.seq >= asked.start + ${server.check('$4::text', '$5::bigint')}
      order by o.consumer, o.shard, o.seq
      limit 1
    ) is not null as waiting,
    (
      select true from ${parked} as p
      where p.consumer = asked.consumer and p.shard = asked.shard and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
      order by p.consumer, p.shard, p.due_at
      limit 1
    ) is not null as due
) as found
where waiting or due`,

    /** The number of messages of a consumer ($1) that wait or are due, up to $2 of each. */
    countDue: `
select ((select pg_catalog.count(*) from (
    select from ${outbox} as o where o.consumer = $1::text limit $2::bigint
  ) as waiting) + (select pg_catalog.count(*) from (
    select from ${parked} as p
    where p.consumer = $1::text and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
    limit $2::bigint
  ) as due))::text as due`,

    /** Locks rows ($6 and $7) for a handler. */
    lock: `
with ${held}
select found.seq::text as seq
from held cross join ${locking(rows('$6', '$7'), 'o.seq')}
where case when found.seq is not null then ${STILL_HELD} end`,

    /** Like `lock`, without columns, because nothing reads the columns of a statement that travels with BEGIN. */
    lockUnseen: `
with ${held}
select
from held cross join ${locking(rows('$6', '$7'), 'o.seq')}
where case when found.seq is not null then ${STILL_HELD} end`,

    /** Like `lock`, for one row, which is the usual case, and costs half as much without a list. */
    lockOne: lockingOne('locked.seq::text as seq'),

    lockOneUnseen: lockingOne(''),

    /** Removes one row ($3 and $4) that the transaction has locked. */
    removeOne: `
delete from ${outbox} as o
where o.consumer = $1::text and o.shard = $2::smallint and o.seq = $3::bigint and ${stampIn('o')} = $4::timestamptz
returning o.seq::text as seq`,

    /** Removes rows ($3 and $4) that the transaction has locked. */
    remove: `
delete from ${outbox} as o
where o.ctid = any (array(
  select found.address from ${plain(rows('$3', '$4'), 'o.ctid as address', ['$1', '$2'])}
))
returning o.seq::text as seq`,

    /** Deletes accepted messages ($6 and $7). */
    settle: `
with ${held}, locked as materialized (
  select found.* from held cross join ${locking(rows('$6', '$7'), 'o.seq, o.ctid as address')}
), settled as (
  delete from ${outbox} as o
  where o.ctid = any (array(select l.address from locked as l))
  returning o.seq
)
select (select pg_catalog.string_agg(s.seq::text, ',') from settled as s) as done,
  (select pg_catalog.string_agg(l.seq::text, ',') from locked as l where not exists (select from settled as s where s.seq = l.seq)) as kept
from held`,

    /** The rows ($3 and $4) of a consumer ($1) and shard ($2) that still exist. */
    remaining: `
select found.seq::text as seq
from ${plain(rows('$3', '$4'), 'o.seq', ['$1', '$2'])}`,

    /**
     * Parks refused messages and the messages behind them ($6 to $14). Fails if a trigger prevents messages from being
     * parked, because those messages would be lost.
     */
    park: `
with ${held}, verdicts as materialized (
  ${verdicts('seq', 6, ['unhandled'])}
), ${movable('verdicts as wanted')}, ${moved}, stored as (
  insert into ${parked} (created_at, due_at, dead_at, attempts, shard, suspect, unhandled, consumer, order_key, ${KEPT_COLUMNS},
    error, errors, payload)
  select m.created_at, ${dueAfter('v.retry_ms')}, case when v.dead then pg_catalog.clock_timestamp() end,
    v.attempts, m.shard, v.suspect, v.unhandled, m.consumer, case when not v.dead then m.key end, ${KEPT},
    v.error, v.errors, m.payload
  from moved as m join verdicts as v on v.seq = m.seq
  order by m.seq
  returning place
)${result}`,

    /**
     * Parks messages ($6 and $7) as suspects, with the messages before them in their keys. The first message of each key is
     * due at once, unless parked messages of the key come before it.
     */
    suspect: `
with ${held}, suspects as materialized (
  select found.*, true as suspect from held cross join ${plain(rows('$6', '$7'), 'o.seq, o.key, ' + stampIn('o') + ' as stamp')}
), wanted as materialized (
  select s.seq, s.stamp, s.suspect from suspects as s
  union all
  select o.seq, ${stampIn('o')}, false
  from (select s.key, pg_catalog.max(s.seq) as seq from suspects as s where s.key is not null group by s.key) as last
  join ${outbox} as o on o.consumer = $4::text and o.shard = $5::smallint and o.seq < last.seq and o.key = last.key
  where not exists (select from suspects as s where s.seq = o.seq)
), ${movable('wanted')}, ${moved}, stored as (
  insert into ${parked} (created_at, due_at, attempts, shard, suspect, consumer, order_key, ${KEPT_COLUMNS}, payload)
  select m.created_at, case when m.key is null or m.is_first and not exists (
      select from ${parked} as p
      where p.consumer = m.consumer and p.shard = m.shard and p.order_key = m.key
    ) then pg_catalog.clock_timestamp() end,
    0, m.shard, m.suspect, m.consumer, m.key, ${KEPT}, m.payload
  from (
    select moved.*, w.suspect, pg_catalog.row_number() over (partition by moved.key order by moved.seq) = 1 as is_first
    from moved join wanted as w on w.seq = moved.seq
  ) as m
  order by m.seq
  returning place
)${result}`,

    /**
     * Locks the row of the lease against another acquirer until the transaction ends, and fails if the lease is no longer held.
     * The last statement before COMMIT, so that a renewal waits for nothing else.
     */
    hold: `
with ${heldLease(schema)}
select (case when (select pg_catalog.count(*) from held) = 1 then 'true' else '${LEASE_LOST}' end)::boolean::text as held`,

    ...sharedSettlement(schema),

    isUnlocked: unlockedKey(schema),
  } as const
}
