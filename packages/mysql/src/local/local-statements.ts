/*
 * MySQL and MariaDB take lists as JSON, with one look-up for each row, and settle in short transactions of several statements.
 * PostgreSQL takes arrays, and settles in one statement.
 */
import type { Tables } from '../connection/identifiers.ts'
import type { ServerTraits } from '../connection/server.ts'
import { UNHANDLED } from '../relay/parked-statements.ts'
import {
  IS_HOLDER,
  backlogStatements,
  instant,
  messageColumns,
  placeIn,
  rowsTable,
  serverIfNew,
  stampIn,
  verdictsTable,
} from '../relay/relay-statements.ts'

/** The columns that identify a shard of a local consumer. */
export const LOCAL_SHARD = ['consumer', 'shard'] as const

/** All statements on the waiting messages of local consumers. `?` is replaced by a value as a literal. */
export function localStatements(
  { localOutbox, localParked, leases }: Tables,
  engine: ServerTraits['engine'],
) {
  const place = placeIn(LOCAL_SHARD)
  const { read, readPayload } = backlogStatements({
    outbox: localOutbox,
    // The index on the number alone would find the rows of all consumers.
    hint: ' force index (primary)',
    parked: localParked,
    order: 'local_parked_order',
    place,
    columns: messageColumns('o', 'seq', 'optional topic'),
  })
  /** The rows of a list that exist. The text belongs behind FROM. */
  const listed = `${rowsTable('seq')} as j
straight_join ${localOutbox} as o force index (primary) on ${place('o')} and o.seq = j.seq
where ${stampIn('o')} = ${instant('j.stamp')}`
  const numberAndKey = 'cast(o.seq as char) as seq, cast(o.`key` as binary) as order_key'
  return {
    /**
     * The connection with its server, in the row 0, and for each shard of a list whether rows wait and whether parked messages are
     * due. One look-up for each shard and table, whatever the statistics say: DISTINCT may scan the backlog.
     */
    work: `
(select '0' as n, null as waiting, null as due, cast(connection_id() as char) as connection, ${serverIfNew(engine)} as server)
union all
(select cast(j.n as char) as n, (
  select '1' from ${localOutbox} as o force index (primary)
  where o.consumer = cast(j.consumer as binary) and o.shard = j.shard
  limit 1
) as waiting, (
  select '1' from ${localParked} as p force index (local_parked_due)
  where p.consumer = cast(j.consumer as binary) and p.shard = j.shard and p.due_at <= utc_timestamp(6) and p.dead_at is null
  limit 1
) as due, null as connection, null as server
from json_table(?, _utf8mb4'$[*]' columns (
  n for ordinality,
  consumer varchar(100) character set utf8mb4 path _utf8mb4'$[0]',
  shard smallint unsigned path _utf8mb4'$[1]'
)) as j)`,

    /** The number of messages of a consumer that wait or are due, up to a limit of each. */
    countDue: `
select cast((
  select count(*) from (
    select 1 from ${localOutbox} as o force index (primary) where o.consumer = cast(? as binary) limit ?
  ) as waiting
) + (
  select count(*) from (
    select 1 from ${localParked} as p force index (local_parked_due)
    where p.consumer = cast(? as binary) and p.due_at <= utc_timestamp(6) and p.dead_at is null
    limit ?
  ) as due
) as char) as due`,

    read: read(),

    /** Like `read`, without the messages of some keys. */
    readWithout: read(' and (o.`key` is null or cast(o.`key` as binary) not in (?))'),

    readPayload,

    /**
     * Locks a message until the transaction ends, if the lease is held. The lease is read, and not locked: a renewal would wait
     * for the handler. The table of the subquery is not locked, because FOR UPDATE belongs to the outer query.
     */
    lockOne: `
select cast(o.seq as char) as seq
from ${localOutbox} as o force index (primary)
where ${place('o')} and o.seq = ? and ${stampIn('o')} = ${instant('?')}
  and (select count(*) from ${leases} as l where ${IS_HOLDER}) = 1
${skipLocked(engine, 'o')}`,

    /** Like `lockOne`, for several messages. Each is looked up by its whole key: a list (IN) may lock other rows of the shard. */
    lock: `
select cast(o.seq as char) as seq
from ${listed}
  and (select count(*) from ${leases} as l where ${IS_HOLDER}) = 1
${skipLocked(engine, 'o')}`,

    removeOne: `
delete from ${localOutbox}
where consumer = ? and shard = ? and seq = ? and ${stampIn(localOutbox)} = ${instant('?')}`,

    /**
     * Each row is looked up by its whole key, because a list (IN) may scan the shard and wait for a producer's uncommitted row.
     */
    remove: `
delete o
from ${listed}`,

    /** Counts the rows that still exist. */
    remaining: `
select cast(count(*) as char) as remaining
from ${listed}`,

    /** Locks the rows that a settlement moves or deletes, without waiting for handlers. */
    lockListed: `
select ${numberAndKey}
from ${listed}
${skipLocked(engine, 'o')}`,

    /** Finds rows, also those that another transaction has locked. */
    findListed: `
select ${numberAndKey}
from ${listed}`,

    /** The messages of some keys up to a number, in their order. */
    ofKeys: `
select ${numberAndKey}, cast(timestampdiff(microsecond, '1970-01-01', o.created_at) as char) as stamp
from ${localOutbox} as o force index (primary)
where ${place('o')} and o.seq <= ? and cast(o.\`key\` as binary) in (?)
order by o.seq
limit ?`,

    /** Parks messages that the same transaction has locked, in their order. */
    park: `
insert into ${localParked} (created_at, due_at, dead_at, attempts, shard, suspect, unhandled, consumer, order_key, id, topic, \`key\`,
  type, content_type, headers, correlation_id, trace_context, error, errors, payload)
select o.created_at, utc_timestamp(6) + interval v.retry_us microsecond, case when v.dead then utc_timestamp(6) end, v.attempts,
  o.shard, v.suspect, v.unhandled, o.consumer, case when not v.dead then cast(o.\`key\` as binary) end, cast(o.id as binary), o.topic,
  o.\`key\`, o.type, o.content_type, o.headers, o.correlation_id, o.trace_context, v.error, v.errors, o.payload
from ${verdictsTable('seq', UNHANDLED)}
straight_join ${localOutbox} as o force index (primary) on ${place('o')} and o.seq = v.seq
where ${stampIn('o')} = ${instant('v.stamp')}
order by o.seq`,
  } as const
}

/** MySQL must be told that JSON_TABLE is not to be locked; MariaDB cannot be told. */
export function skipLocked(engine: ServerTraits['engine'], table: string): string {
  return `for update ${engine === 'mysql' ? `of ${table} ` : ''}skip locked`
}
