/** What `messageColumns` leaves out. */
export const COMMON = { contentType: 'application/json', headers: '{}' } as const

/** In the order in which they are read: what most messages have in common stands together. */
const COPIED_COLUMNS = [
  ...['seq', 'created_at', 'ctid'],
  ...['topic', 'type', 'content_type', 'headers'],
  ...['id', 'key', 'correlation_id'],
] as const

/** Every statement on the outbox table that a relay runs. `schema` is quoted. */
export function relayStatements(schema: string) {
  const columns = `o.seq::text as seq, o.ctid::text as address, ${messageColumns('o')}`
  const held = heldLease(schema)
  /**
   * Their addresses, by number, never by range, which takes what committed in between. Each by a look-up of its own: of
   * a list the planner may make a scan of the shard, where statistics are missing. A row is never updated, so that its
   * address stays.
   */
  const addressesOf = (seqs: string): string => `
    select found.ctid
    from held cross join ${seqs}
    cross join lateral (
      select o.ctid from ${schema}.outbox as o where o.shard = $4 and o.seq = wanted.seq limit 1
    ) as found
  `
  // A message is blocked by a parked one of its key: a look-up for each, once there are such in the shard. In the order of
  // the index, or the planner may scan all that is parked for each.
  const blocked = `case
    when (
      select true from ${schema}.parked as b
      where b.order_key is not null and (b.shard, b.order_key) >= ($1::smallint, '') and b.shard <= $1
      order by b.shard, b.order_key, b.place
      limit 1
    )
    then (
      select 'true' from ${schema}.parked as p
      where p.order_key is not null and (p.shard, p.order_key, p.place) > ($1::smallint, o.key, 0)
        and (p.shard, p.order_key) <= ($1::smallint, o.key)
      order by p.shard, p.order_key, p.place
      limit 1
    )
  end as blocked`
  // Compared as a row, and in the order of the whole key: with o.shard = $1, where statistics are missing, the planner
  // reads the shard as a whole and sorts it.
  const oldest = (from: string): string => `from ${schema}.outbox as o
where (o.shard, o.seq) >= ($1::smallint, ${from}::bigint) and (o.shard, o.seq) < ($1::smallint + 1, 0)
order by o.shard, o.seq
limit $2`
  return {
    /** The oldest messages of a shard from the number $4 on; payloads of more than $3 bytes are only measured. */
    read: `
select ${columns},
  ${boundedPayload('o', '$3')},
  ${blocked}
${oldest('$4')}`,

    /**
     * The same in binary, which spares both sides to make text of everything. COPY takes no parameters: `withIntegers` puts
     * them in. The number, another one each time, is no part of it, so that whoever keeps statistics of statements sees one
     * for each shard.
     */
    copy: `select set_config('txbox.read_from', '$4', true); copy (
select ${COPIED_COLUMNS.map((column) => `o.${column}`).join(', ')},
  ${blocked},
  octet_length(o.payload) as payload_bytes,
  case when octet_length(o.payload) <= $3 then o.payload end as payload
${oldest("current_setting('txbox.read_from')")}
) to stdout (format binary)`,

    /** Whose transaction is open and has written to the outbox, or deleted from it. */
    openWriters: `
select virtualtransaction as writer, (pid is null)::text as prepared
from pg_catalog.pg_locks
where locktype = 'relation' and mode = 'RowExclusiveLock' and granted
  and database = (select oid from pg_catalog.pg_database where datname = current_database())
  and relation = ${literal(`${schema}.outbox`)}::regclass`,

    /** The payloads that were only measured. */
    readPayloads: `
select o.seq::text as seq, encode(o.payload, 'hex') as payload
from ${schema}.outbox as o
where o.shard = $1 and o.seq = any ($2::bigint[])`,

    /**
     * Deletes what was accepted, fenced by the lease: others take it under FOR UPDATE, which FOR KEY SHARE keeps waiting
     * until this has committed; renewing it, which changes no key, does not wait, nor is it held up. By the addresses that
     * they were read at ($6), which saves to look each up, and by number, since something else may lie there by now. How
     * many rows it tells; fewer than were accepted, and some have moved, or the lease is lost.
     */
    settle: `
with ${held}
delete from ${schema}.outbox
where ctid = any (array(select unnest($6::tid[]) from held))
  and shard = $4
  -- A subquery on its own, which is hashed; as a condition it may become a join that scans.
  and case when seq in (select unnest($5::bigint[])) then true end`,

    /** The same by number alone, for what has moved: VACUUM FULL and the like do that. */
    settleByNumber: `
with ${held}, settled as (
  delete from ${schema}.outbox
  where ctid = any (array(${addressesOf('unnest($5::bigint[]) as wanted (seq)')}))
)
select true as held from held`,

    /**
     * The same, and parks what was refused and what waits behind it ($6 to $10): what this statement has deleted, and
     * nothing else, so that no message comes back that somebody else has settled.
     */
    settleAndPark: `
with ${held}, verdicts as materialized (
  select wanted.seq, wanted.attempts, wanted.retry_ms, wanted.dead, wanted.error
  from unnest($6::bigint[], $7::integer[], $8::double precision[], $9::boolean[], $10::text[])
    as wanted (seq, attempts, retry_ms, dead, error)
), settled as (
  delete from ${schema}.outbox
  where ctid = any (array(${addressesOf('unnest($5::bigint[]) as wanted (seq)')}))
), moved as (
  delete from ${schema}.outbox
  where ctid = any (array(${addressesOf('verdicts as wanted')}))
  returning *
), parked as (
  insert into ${schema}.parked (created_at, due_at, dead_at, attempts, shard, order_key, id, topic, key, type, content_type,
    headers, correlation_id, trace_context, error, payload)
  select m.created_at, clock_timestamp() + v.retry_ms * interval '1 millisecond', case when v.dead then clock_timestamp() end,
    v.attempts, m.shard, case when not v.dead then m.key end, m.id, m.topic, m.key, m.type, m.content_type, m.headers,
    m.correlation_id, m.trace_context, v.error, m.payload
  from moved as m join verdicts as v on v.seq = m.seq
  order by m.seq
)
select true as held from held`,

    /** Shards with something to do from the number on that each is to be read from, and whether parked messages are due. */
    work: `
select shard, due::text as due
from unnest($1::smallint[], $2::bigint[]) as asked (shard, start)
cross join lateral (
  select
    -- In order, which only the primary key gives; an EXISTS would be free to scan.
    (
      select true from ${schema}.outbox as o
      where (o.shard, o.seq) >= (asked.shard, asked.start) and (o.shard, o.seq) < (asked.shard + 1, 0)
      order by o.shard, o.seq
      limit 1
    ) is not null as waiting,
    exists (select from ${schema}.parked as p where p.shard = asked.shard and p.due_at <= statement_timestamp()) as due
) as found
where waiting or due`,
  } as const
}

/** A statement with integers in the place of its parameters. */
export function withIntegers(text: string, values: readonly (number | bigint)[]): string {
  // A quoted name may look like anything.
  return text.replaceAll(/"(?:[^"]|"")*"|\$(\d)/g, (found, n: string | undefined) => {
    if (n === undefined) return found
    const value = values[Number(n) - 1]
    if (typeof value === 'bigint' || Number.isSafeInteger(value)) return String(value)
    throw new RangeError(`${value} is no integer.`)
  })
}

/**
 * What a message carries, but for its number and its payload. What most of them have in common is null: a column costs the
 * same as any other, however short.
 */
export function messageColumns(table: string): string {
  const of = (column: string): string => `${table}.${column}`
  return `${['id', 'topic', 'key', 'type', 'correlation_id'].map(of).join(', ')},
  nullif(${of('content_type')}, '${COMMON.contentType}') as content_type, nullif(${of('headers')}, '${COMMON.headers}') as headers,
  floor(date_part('epoch', ${table}.created_at) * 1000)::bigint::text as created_at`
}

/**
 * 'escape' leaves ASCII as it is. Of a row of an ordinary size `payload_bytes` is null, which costs nothing to read; of
 * a larger one the payload is.
 */
export function boundedPayload(table: string, mostBytes: string): string {
  const bytes = `octet_length(${table}.payload)`
  return `case when ${bytes} > ${mostBytes} then ${bytes}::text end as payload_bytes,
  case when ${bytes} <= ${mostBytes} then encode(${table}.payload, 'escape') end as payload`
}

/** One row while the lease is still the one that it was, and nobody can take it before this has committed. */
export function heldLease(schema: string): string {
  return `held as materialized (
  select 1 from ${schema}.leases
  where name = $1 and owner = $2 and term = $3::bigint and expires_at > clock_timestamp()
  for key share
)`
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
