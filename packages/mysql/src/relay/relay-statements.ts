/*
 * MySQL and MariaDB take lists as JSON, with one row for each look-up, and need one branch of a UNION for each shard.
 * PostgreSQL takes arrays, and settles in one statement.
 */
import { STAMP_BOUNDS } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import type { ServerTraits } from '../connection/server.ts'

/** The condition on the lease `l` of the caller. */
export const IS_HOLDER = 'l.name = ? and l.owner = ? and l.term = ? and l.expires_at > utc_timestamp(6)'

/**
 * All statements on the outbox table that a relay runs. `?` is replaced by a value as a literal. Text is returned as
 * bytes, because the connection's character set would change it.
 */
export function relayStatements({ outbox, leases, parked }: Tables, engine: ServerTraits['engine']) {
  const { read, readPayload } = backlogStatements({
    outbox,
    parked,
    order: 'parked_order',
    place: placeIn(['shard']),
    columns: messageColumns('o', 'seq'),
  })
  return {
    read: read(),
    readPayload,

    /**
     * Deletes accepted messages in one statement that is its own transaction, fenced by the lease: reading the row of
     * the lease for the DELETE locks the row in share mode, waits for a takeover that is in flight, and sees its
     * result.
     *
     * Rows are deleted by number and stamp, never by range, because a range would include rows that were committed in
     * between. Each row is looked up by its whole key, because a list (IN) may scan the shard and wait for a producer's
     * uncommitted row.
     */
    settle: `
delete o
from ${leases} as l
straight_join ${rowsTable('seq')} as accepted
straight_join ${outbox} as o force index (primary) on o.shard = ? and o.seq = accepted.seq
where ${IS_HOLDER} and ${stampIn('o')} = ${instant('accepted.stamp')}`,

    /**
     * Whether the lease is still held. If a settlement has deleted too few rows, this shows whether the lease was lost
     * or the rows did not exist.
     */
    isHeld: `
select '1' as held
from ${leases} as l
where ${IS_HOLDER}`,

    remaining: `
select cast(count(*) as char) as remaining
from ${rowsTable('seq')} as wanted
straight_join ${outbox} as o force index (primary) on o.shard = ? and o.seq = wanted.seq
where ${stampIn('o')} = ${instant('wanted.stamp')}`,

    /** Like `isHeld`, but also keeps other relays from acquiring the lease before this transaction has ended. */
    holdOn: `
select '1' as held
from ${leases} as l
where ${IS_HOLDER}
lock in share mode`,

    /**
     * Parks refused messages and the messages behind them. The statement reads the messages without locks, so {@link
     * remove} must then delete the same number of rows; otherwise a message that another session has deleted would
     * reappear.
     */
    park: `
insert into ${parked} (created_at, due_at, dead_at, attempts, shard, suspect, order_key, id, topic, \`key\`, type,
  content_type, headers, correlation_id, trace_context, error, errors, payload)
select o.created_at, utc_timestamp(6) + interval v.retry_us microsecond, case when v.dead then utc_timestamp(6) end, v.attempts,
  o.shard, v.suspect, case when not v.dead then cast(o.\`key\` as binary) end, cast(o.id as binary), o.topic, o.\`key\`, o.type,
  o.content_type, o.headers, o.correlation_id, o.trace_context, v.error, v.errors, o.payload
from ${verdictsTable('seq')}
straight_join ${outbox} as o force index (primary) on o.shard = ? and o.seq = v.seq
where ${stampIn('o')} = ${instant('v.stamp')}
order by o.seq`,

    /** Deletes the parked messages from the outbox, in the same transaction. */
    remove: `
delete o
from ${rowsTable('seq')} as gone
straight_join ${outbox} as o force index (primary) on o.shard = ? and o.seq = gone.seq
where ${stampIn('o')} = ${instant('gone.stamp')}`,

    /** Each shard is a branch of `work`: a query for all shards at once may scan the backlog. */
    hasBacklog: `
(select cast(? as char) as shard, '0' as due, null as server from ${outbox} as o where o.shard = ? limit 1)`,

    hasDue: `
(select cast(? as char) as shard, '1' as due, null as server from ${parked} as p where p.shard = ? and p.due_at <= utc_timestamp(6) and p.dead_at is null limit 1)`,

    /**
     * A branch of `work` that returns the id of the connection in place of the shard, and its server. The server is
     * null if the connection is known and belongs to the known server. The start time of the server, to the second, is
     * expensive, so it is read only once per connection. The name is cheap and is compared each time: after a failover,
     * the new server may use the same connection ids as the old one.
     */
    onServer: `
(select cast(connection_id() as char) as shard, '0' as due, ${serverIfNew(engine)} as server)`,

    work: unionAll,

    /** Records the note about messages in flight after a crash, if the lease is still held. */
    note: `
update ${leases} as l
set l.in_flight = ?
where ${IS_HOLDER}`,

    /**
     * Removes the note and resets the count of crashes, once all messages that were in flight during a crash are
     * settled.
     */
    survived: `
update ${leases} as l
set l.crashes = 0, l.in_flight = null
where ${IS_HOLDER}`,
  } as const
}

interface Backlog {
  readonly outbox: string
  readonly parked: string
  /** The hint for the optimizer behind the name of the outbox. @default none */
  readonly hint?: string
  /** The index of the parked messages by key. */
  readonly order: string
  readonly place: ReturnType<typeof placeIn>
  readonly columns: string
}

/** Returns the condition that a row belongs to a shard, by the name of its table. `columns` identify the shard. */
export function placeIn(columns: readonly string[]): (table: string) => string {
  return (table) => columns.map((column) => `${table}.${column} = ?`).join(' and ')
}

/** The statements that read waiting messages: those of the outbox, or those of local consumers. */
export function backlogStatements({ outbox, hint = '', parked, order, place, columns }: Backlog) {
  const backlog = `from ${outbox} as o${hint}
where ${place('o')}`
  return {
    /**
     * The oldest messages of a shard; payloads that are too large are only measured. A message is blocked by a parked
     * message of its key. If the shard has parked messages with keys, this takes one lookup for each message.
     */
    read: (condition = '') => `
select ${columns},
  case
    when exists (select 1 from ${parked} as b force index (${order}) where ${place('b')} and b.order_key is not null)
    then (
      select '1' from ${parked} as p force index (${order})
      where ${place('p')} and p.order_key = cast(o.\`key\` as binary)
      limit 1
    )
  end as blocked
${backlog}${condition}
order by o.seq
limit ?`,

    /** Reads a payload that was only measured. Reads one at a time, because a row must fit into a packet. */
    readPayload: `
select o.payload as payload
${backlog} and o.seq = ? and ${stampIn('o')} = ${instant('?')}`,
  } as const
}

const SERVER_NAME = {
  mysql: '@@server_uuid',
  mariadb: "concat(@@hostname, ':', @@port, ':', @@server_id)",
} as const

/** The name of the server, and the second in which it started. */
const SERVER = {
  mysql: serverText(SERVER_NAME.mysql, 'performance_schema'),
  mariadb: serverText(SERVER_NAME.mariadb, 'information_schema'),
} as const

/** The server, unless the connection and the server are known. The values are the known connections, and the known server. */
export function serverIfNew(engine: ServerTraits['engine']): string {
  return `case when connection_id() not in (?) or ${SERVER_NAME[engine]} <> ? then ${SERVER[engine]} end`
}

function serverText(name: string, schema: string): string {
  return `concat(${name}, '/', unix_timestamp() - (
    select variable_value from ${schema}.global_status where variable_name = 'Uptime'
  ))`
}

/** Combines several queries, each in parentheses, in one statement. */
export function unionAll(queries: readonly string[]): string {
  return queries.join('\nunion all')
}

/**
 * A message as two values. One value contains all fields except the payload, in the order of `fieldsOf`, because each
 * value of a row costs the server and the client some time. The value is binary, so that the connection's character
 * sets have no effect, and the separating byte never occurs in UTF-8 text. An optional field that is present begins
 * with `=`.
 *
 * The payload is returned if it has at most `?` bytes.
 */
export function messageColumns(
  table: string,
  number: 'seq' | 'place',
  topic: 'topic' | 'optional topic' = 'topic',
): string {
  const text = (column: string): string => `${table}.\`${column}\``
  const optional = (column: string): string => `ifnull(concat(X'3D', ${text(column)}), X'')`
  const digits = (value: string): string => `cast(${value} as char character set ascii)`
  return `concat_ws(X'FF',
    ${digits(text(number))}, ${digits(`octet_length(${text('payload')})`)},
    ${digits(`timestampdiff(microsecond, '1970-01-01', ${text('created_at')})`)},
    cast(${text('id')} as binary), ${topic === 'topic' ? text('topic') : optional('topic')}, ${text('content_type')}, ${text('headers')},
    ${optional('key')}, ${optional('type')}, ${optional('correlation_id')}, ${optional('trace_context')}
  ) as fields,
  case when octet_length(${text('payload')}) <= ? then ${text('payload')} end as payload`
}

export function instant(microseconds: string): string {
  return `cast('1970-01-01' as datetime(6)) + interval ${microseconds} microsecond`
}

/** The value that is compared with a stamp. It is clamped to the same two instants as `toStamp` clamps a stamp. */
export function stampIn(table: string): string {
  const [least, greatest] = STAMP_BOUNDS.map((date) => `cast('${date}' as datetime(6))`) as [string, string]
  return `least(greatest(${table}.created_at, ${least}), ${greatest})`
}

/** A JSON list of rows by number and stamp, as a table; see `rowOf`. */
export function rowsTable(number: 'seq' | 'place'): string {
  return `json_table(?, _utf8mb4'$[*]' columns (${number} bigint unsigned path _utf8mb4'$[0]', stamp bigint path _utf8mb4'$[1]'))`
}

/** A JSON list of verdicts on messages, as a table; see `verdictOf`. */
export function verdictsTable(number: 'seq' | 'place', more = ''): string {
  return `json_table(?, _utf8mb4'$[*]' columns (
  ${number} bigint unsigned path _utf8mb4'$.number',
  stamp bigint path _utf8mb4'$.stamp',
  attempts int unsigned path _utf8mb4'$.attempts',
  retry_us bigint unsigned path _utf8mb4'$.retry_us',
  dead tinyint path _utf8mb4'$.dead',
  suspect tinyint path _utf8mb4'$.suspect',${more}
  error mediumtext character set utf8mb4 path _utf8mb4'$.error',
  errors mediumtext character set utf8mb4 path _utf8mb4'$.errors'
)) as v`
}
