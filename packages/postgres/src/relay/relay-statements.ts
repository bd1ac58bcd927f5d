/*
 * PostgreSQL settles in one statement, by the addresses of rows, and takes lists as arrays; MySQL and MariaDB take
 * lists as JSON, in several statements.
 */
import {
  OUTBOX,
  backlogReads,
  dueAfter,
  heldLease,
  literal,
  serverIdentity,
  stampIn,
  verdicts,
} from './backlog-statements.ts'

/** All statements on the outbox table that a relay runs. `schema` is quoted. */
export function relayStatements(schema: string) {
  const held = heldLease(schema)
  /**
   * Finds the addresses of rows by number and stamp, never by range, because a range would include rows that were
   * committed in between. Each row is looked up separately: for a list, the planner may scan the whole shard if
   * statistics are missing. A row is never updated, so its address does not change.
   */
  const found = (wanted: string, shard: string): string => `${wanted} cross join lateral (
      select o.ctid from ${schema}.outbox as o
      where o.shard = ${shard} and o.seq = wanted.seq and ${stampIn('o')} = wanted.stamp
      limit 1
    ) as found`
  const addressesOf = (wanted: string): string => `
    select found.ctid
    from held cross join ${found(wanted, '$4')}
  `
  const server = serverIdentity(schema, OUTBOX)
  return {
    ...backlogReads(schema, OUTBOX),

    /**
     * The open transactions that have inserted into the outbox or deleted from it. The first row identifies the server.
     */
    openWriters: `
select ${server.identity} as server, ${server.last}::text as last, null as writer, null as prepared
union all
select null, null, l.virtualtransaction, (l.pid is null)::text
from pg_catalog.pg_locks as l
where l.locktype = 'relation' and l.mode = 'RowExclusiveLock' and l.granted
  and l.database = (select d.oid from pg_catalog.pg_database as d where d.datname = pg_catalog.current_database())
  and l.relation = ${literal(`${schema}.outbox`)}::regclass::oid`,

    /**
     * Deletes accepted messages, fenced by the lease. Other relays acquire the lease with FOR UPDATE, which waits for
     * this statement's FOR KEY SHARE until this statement has committed; a renewal, which changes no key, neither waits
     * nor is blocked. Rows are found by the addresses at which they were read ($6), which saves a lookup for each, and
     * are deleted only if number and stamp match, because another message may have the address by now. If fewer rows
     * are deleted than were accepted, some rows have moved, something keeps the rows, or the lease is lost.
     */
    settle: `
with ${held}
delete from ${schema}.outbox
where ctid = any (array(select pg_catalog.unnest($6::tid[]) from held))
  and shard = $4
  -- A subquery on its own, which is hashed; as a condition it may become a join that scans.
  and case when (seq, ${stampIn('outbox')}) in (select pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($7::timestamptz[])) then true end`,

    /** Like `settle`, but without addresses, for rows that were moved, for example by VACUUM FULL. */
    settleByNumber: `
with ${held}, settled as (
  delete from ${schema}.outbox
  where ctid = any (array(${addressesOf('rows from (pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($6::timestamptz[])) as wanted (seq, stamp)')}))
  returning seq
)
select (select pg_catalog.count(*) from settled)::text as settled from held`,

    remaining: `
select pg_catalog.count(*)::text as remaining
from ${found('rows from (pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::timestamptz[])) as wanted (seq, stamp)', '$1')}`,

    /**
     * Deletes accepted messages, and parks refused messages and the messages behind them ($7 to $14). Only messages
     * that this statement has deleted are parked, so that no message reappears that another relay has settled. Fails if
     * a trigger prevents messages from being parked, because those messages would be lost.
     */
    settleAndPark: `
with ${held}, verdicts as materialized (
  ${verdicts('seq', 7)}
), settled as (
  delete from ${schema}.outbox
  where ctid = any (array(${addressesOf('rows from (pg_catalog.unnest($5::bigint[]), pg_catalog.unnest($6::timestamptz[])) as wanted (seq, stamp)')}))
  returning seq
), moved as (
  delete from ${schema}.outbox
  where ctid = any (array(${addressesOf('verdicts as wanted')}))
  returning *
), stored as (
  insert into ${schema}.parked (created_at, due_at, dead_at, attempts, shard, suspect, order_key, id, topic, key, type,
    content_type, headers, correlation_id, trace_context, error, errors, payload)
  select m.created_at, ${dueAfter('v.retry_ms')}, case when v.dead then pg_catalog.clock_timestamp() end,
    v.attempts, m.shard, v.suspect, case when not v.dead then m.key end, m.id, m.topic, m.key, m.type, m.content_type,
    m.headers, m.correlation_id, m.trace_context, v.error, v.errors, m.payload
  from moved as m join verdicts as v on v.seq = m.seq
  order by m.seq
  returning place
), counted as (
  select (select pg_catalog.count(*) from moved) as moved, (select pg_catalog.count(*) from stored) as stored
)
select (select pg_catalog.count(*) from settled)::text as settled, counted.moved::text as moved,
  (case when counted.moved <> counted.stored then 'Something keeps messages from being parked.' end)::boolean::text as kept
from held cross join counted`,

    /**
     * The shards that have messages, and whether parked messages are due. Each shard is searched from the number where
     * its reads start. Fails under the same conditions as `read`.
     */
    work: `
select shard::text as shard, due::text as due
from rows from (pg_catalog.unnest($1::smallint[]), pg_catalog.unnest($2::bigint[])) as asked (shard, start)
cross join lateral (
  select
    -- In order, which only the primary key gives; an EXISTS would be free to scan.
    (
      select true from ${schema}.outbox as o
      where (o.shard, o.seq) >= (asked.shard, asked.start + ${server.check('$3::text', '$4::bigint')}) and (o.shard, o.seq) < (asked.shard + 1, 0)
      order by o.shard, o.seq
      limit 1
    ) is not null as waiting,
    exists (
      select from ${schema}.parked as p where p.shard = asked.shard and p.due_at <= pg_catalog.statement_timestamp() and p.dead_at is null
    ) as due
) as found
where waiting or due`,

    /** Records the note about messages in flight after a crash, if the lease is still held. */
    note: `
update ${schema}.leases as l
set in_flight = $4
where l.name = $1 and l.owner = $2 and l.term = $3::bigint and l.expires_at > pg_catalog.clock_timestamp()
returning 'true' as held`,

    /** Removes the note and resets the count of crashes. */
    survived: `
update ${schema}.leases as l
set crashes = 0, in_flight = null
where l.name = $1 and l.owner = $2 and l.term = $3::bigint`,
  } as const
}
