/*
 * What the statements of relays and of local consumers have in common. PostgreSQL returns a message as columns, whose positions
 * in the table are known; MySQL and MariaDB return one binary value.
 */
import { STAMP_BOUNDS } from '@txbox/sql/stores'

/** The text of the server's error when the remembered number comes from another server or another table. */
export const ANOTHER_SERVER = 'txbox: another server'

/** The values that `messageColumns` replaces by null. */
export const COMMON = { contentType: 'application/json', headers: '{}' } as const

/** The columns in the order in which they are decoded. Columns with the same values in most messages are adjacent. */
const COPIED_COLUMNS = [
  ...['seq', 'created_at', 'ctid'],
  ...['topic', 'type', 'content_type', 'headers'],
  ...['id', 'key', 'correlation_id', 'trace_context'],
] as const

/** Where messages wait, and which statements read them. */
export interface Backlog {
  readonly outbox: 'outbox' | 'local_outbox'
  readonly parked: 'parked' | 'local_parked'
  readonly sequence: 'outbox_seq' | 'local_outbox_seq'
  /** Whether the tables have rows of several consumers, each with shards of its own. */
  readonly byConsumer: boolean
}

export const OUTBOX: Backlog = {
  outbox: 'outbox',
  parked: 'parked',
  sequence: 'outbox_seq',
  byConsumer: false,
}

/** The statements that read waiting messages. $7 is the consumer, and $8 the keys that are left out, if `byConsumer`. */
export function backlogReads(schema: string, backlog: Backlog) {
  const outbox = `${schema}.${backlog.outbox}`
  const parked = `${schema}.${backlog.parked}`
  const columns = `o.seq::text as seq, o.ctid::text as address, ${messageColumns('o')}`
  const ofConsumer = (table: string, parameter: string): string =>
    backlog.byConsumer ? `${table}.consumer = ${parameter}::text and ` : ''
  const server = serverIdentity(schema, backlog)
  // A message is blocked by a parked message of its key. If the shard has parked messages with keys, this takes one
  // lookup for each message. The ORDER BY is that of the index; without it, the planner may scan all parked messages
  // for each lookup. The last condition ends the lookup behind the key; a comparison of rows does not before PostgreSQL 18.
  const blocked = `case
    when (
      select true from ${parked} as b
      where ${ofConsumer('b', '$7')}b.order_key is not null and (b.shard, b.order_key) >= ($1::smallint, '') and b.shard <= $1
      order by b.shard, b.order_key, b.place
      limit 1
    )
    then (
      select 'true' from ${parked} as p
      where ${ofConsumer('p', '$7')}p.order_key is not null and p.shard = $1::smallint
        and (p.order_key, p.place) > (o.key, 0) and p.order_key <= o.key
      order by p.shard, p.order_key, p.place
      limit 1
    )
  end as blocked`
  // The condition compares whole rows, in the order of the whole key. With o.shard = $1 instead, the planner would read
  // and sort the whole shard if statistics are missing. With a consumer, the planner must not know the limit: it then expects
  // to read a tenth of the rows, and not all of the few rows that it expects without statistics.
  const end = backlog.byConsumer
    ? `o.shard <= $1::smallint\n  and (o.key is null or o.key <> all ($8::text[]))`
    : '(o.shard, o.seq) < ($1::smallint + 1, 0)'
  const limit = backlog.byConsumer ? '(select $2::bigint)' : '$2'
  const oldest = (from: string): string => `from ${outbox} as o
where ${ofConsumer('o', '$7')}(o.shard, o.seq) >= ($1::smallint, ${from}::bigint) and ${end}
order by o.shard, o.seq
limit ${limit}`
  return {
    /** The identity of this server and these tables, and the last assigned number. */
    server: `
select ${server.identity} as server, ${server.last}::text as last`,

    /**
     * The oldest messages of a shard from the number $4 on; payloads of more than $3 bytes are only measured. Fails on
     * a server other than $5, and if numbers up to $6 have not been assigned: see `serverIdentity`.
     */
    read: `
select ${columns},
  ${boundedPayload('o', '$3')},
  ${blocked}
${oldest(`$4::bigint + ${server.check('$5::text', '$6::bigint')}`)}`,

    /**
     * Like `read`, but as a COPY in binary, which saves both sides the conversion to text. COPY has no parameters, so
     * the values are inserted as literals. The number changes with each read; it is passed by a setting instead, so
     * that statement statistics have only one entry for each shard.
     */
    copy: `set transaction isolation level read committed; set local statement_timeout = $7;
select pg_catalog.set_config('txbox.read_from', $4, true), pg_catalog.set_config('txbox.server', $5, true),
  pg_catalog.set_config('txbox.last', $6, true); copy (
select ${COPIED_COLUMNS.map((column) => `o.${column}`).join(', ')},
  ${blocked},
  pg_catalog.octet_length(o.payload) as payload_bytes,
  case when pg_catalog.octet_length(o.payload) <= $3 then o.payload end as payload
${oldest(
  `pg_catalog.current_setting('txbox.read_from')::bigint + ${server.check(
    "pg_catalog.current_setting('txbox.server')",
    "pg_catalog.current_setting('txbox.last')::bigint",
  )}`,
)}
) to stdout (format binary)`,

    /** Reads the payloads that were only measured. */
    readPayloads: `
select o.seq::text as seq, pg_catalog.encode(o.payload, 'hex') as payload
from ${outbox} as o
where ${ofConsumer('o', '$4')}o.shard = $1 and o.seq = any ($2::bigint[])
  and (o.seq, ${stampIn('o')}) in (select pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::timestamptz[]))`,
  } as const
}

/**
 * The columns of a message except its number and payload. Values that most messages share are replaced by null, because
 * each value costs the same, however short it is.
 */
export function messageColumns(table: string): string {
  const of = (column: string): string => `${table}.${column}`
  return `${['id', 'topic', 'key', 'type', 'correlation_id', 'trace_context'].map(of).join(', ')},
  nullif(${of('content_type')}, '${COMMON.contentType}') as content_type, nullif(${of('headers')}, '${COMMON.headers}') as headers,
  ${stampOf(table)} as stamp`
}

/** Microseconds since 1970, exact, as text. Instants that have no number, such as 'infinity', are clamped. */
export function stampOf(table: string): string {
  return `(extract(epoch from least(greatest(${table}.created_at, '0001-01-01Z'::timestamptz), '9999-12-31Z'::timestamptz)) * 1000000::numeric)::bigint::text`
}

/** The value that is compared with a stamp. It is clamped to the same two instants as `toStamp` clamps a stamp. */
export function stampIn(table: string): string {
  const [least, greatest] = STAMP_BOUNDS.map((day) => `${day}T00:00:00Z`) as [string, string]
  return `least(greatest(${table}.created_at, '${least}'::timestamptz), '${greatest}'::timestamptz)`
}

/** The instant this many milliseconds from now; null for null. */
export function dueAfter(milliseconds: string): string {
  return `pg_catalog.clock_timestamp() + ${milliseconds} * interval '1 millisecond'`
}

/**
 * Verdicts on messages, from eight arrays; the first array is the parameter number `first`. See `columnsOf`. `more` adds a
 * column of flags.
 */
export function verdicts(number: 'seq' | 'place', first: number, more: readonly string[] = []): string {
  const types = [
    'bigint',
    'timestamptz',
    'integer',
    'double precision',
    'boolean',
    'text',
    'text',
    'boolean',
    ...more.map(() => 'boolean'),
  ]
  const arrays = types.map((type, index) => `pg_catalog.unnest($${first + index}::${type}[])`)
  return `select * from rows from (${arrays.join(', ')})
    as wanted (${[number, ...'stamp attempts retry_ms dead error errors suspect'.split(' '), ...more].join(', ')})`
}

/**
 * A server that was restored or promoted, and a table that was truncated, assign numbers that have been assigned
 * before: everything that is known about the numbers must then be discarded.
 *
 * - `identity`: when the server started, and the files of the outbox and of its sequence, which TRUNCATE, RESTART
 *   IDENTITY and a restore replace.
 * - `last`: the last assigned number, if the role may read it; only this value shows a `setval`.
 * - `check`: 0, or an error (22P02) if the identity is another one, or the sequence has not reached the number.
 */
export function serverIdentity(schema: string, { outbox, sequence: sequenceName }: Backlog) {
  const file = (relation: string): string =>
    `pg_catalog.pg_relation_filenode(${literal(`${schema}.${relation}`)}::regclass)::text`
  const sequence = literal(`${schema}.${sequenceName}`)
  const identity = `(extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000::numeric)::bigint::text || '/' ||
    ${file(outbox)} || '/' || ${file(sequenceName)}`
  const last = `case when pg_catalog.has_sequence_privilege(${sequence}, 'select')
    then coalesce(pg_catalog.pg_sequence_last_value(${sequence}::regclass), 0::bigint) end`
  const check = (expected: string, mostGiven: string): string => `(
    select case when ${identity} = ${expected} and coalesce(${last} >= ${mostGiven}, true)
      then '0' else '${ANOTHER_SERVER}' end::bigint
  )`
  return { identity, last, check }
}

/**
 * The payload, and its size. The encoding 'escape' leaves ASCII unchanged. For a payload of ordinary size,
 * `payload_bytes` is null, which costs nothing to read; for a larger one, the payload is null.
 */
export function boundedPayload(table: string, mostBytes: string): string {
  const bytes = `pg_catalog.octet_length(${table}.payload)`
  return `case when ${bytes} > ${mostBytes} then ${bytes}::text end as payload_bytes,
  case when ${bytes} <= ${mostBytes} then pg_catalog.encode(${table}.payload, 'escape') end as payload`
}

/**
 * Returns one row if the lease is still held, and keeps other relays from acquiring it before this transaction has
 * committed.
 */
export function heldLease(schema: string): string {
  return `held as materialized (
  select 1 from ${schema}.leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > pg_catalog.clock_timestamp()
  for key share
)`
}

export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
