/*
 * PostgreSQL finds and locks in one statement, and takes lists as arrays; MySQL and MariaDB find without a lock first, and
 * take lists as JSON.
 */
import { messageColumns } from '../relay/backlog-statements.ts'

/**
 * The `due_at` of handled messages that are part of the order of a key. Such a row tells receivers to release the key:
 * to make its next message visible.
 */
export const EPOCH = "timestamptz 'epoch'"

/**
 * Selects the first entry of a shard (`asked.shard`) in the index of visible messages. Equality ends the scan with the
 * shard: PostgreSQL before 18 would pass over the entries of later shards, which may be dead.
 */
export function firstEntryOfShard(queue: string): string {
  return `cross join lateral (
  select q.due_at from ${queue} as q
  where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard and q.due_at >= ${EPOCH}
  order by q.due_at, q.place
  limit 1
) as next`
}

/**
 * The shard of messages without a key. Nothing orders them, so a receiver takes them without locking their shard. The
 * other shards are those of the keys, and of messages without a key that an earlier version has sent.
 */
export const UNKEYED_SHARD = 16

/** The columns of a message to receive. The encoding 'escape' leaves ASCII unchanged. */
export function queueColumns(table: string): string {
  return `${table}.place::text as place, ${table}.receipt::text as receipt, ${table}.shard::text as shard,
  ${table}.attempts::text as attempts, ${table}.timeouts::text as timeouts,
  (${table}.order_key is not null)::text as ordered, ${messageColumns(table)},
  ${microseconds(`${table}.due_at`)} as due_us,
  pg_catalog.encode(${table}.payload, 'escape') as payload`
}

/** The expressions that name a key. */
interface Key {
  readonly shard: string
  readonly order_key: string
}

const FREED: Key = { shard: 'freed.shard', order_key: 'freed.order_key' }
const CANDIDATE: Key = { shard: 'asked.shard', order_key: 'q.order_key' }

/**
 * All statements of a receive. `schema` is quoted. $1 is the queue and $2 the shards, unless a statement says
 * otherwise. Only receivers decide which message of a key is visible, and a shard has one receiver at a time: a
 * receiver first locks the rows of its shards in `leases`. The later statements run at READ COMMITTED, so that they see
 * what the previous receiver has committed.
 */
export function queueReceiveStatements(schema: string) {
  const queue = `${schema}.queue`
  /**
   * The condition for the messages of a key: the part of the index from the key's first entry to its last. With an
   * equality on the key, the planner may scan the whole queue or sort the whole key when statistics are missing. With a
   * comparison of rows as the upper bound, PostgreSQL before 18 goes on to the end of the queue if the key has no message.
   */
  const ofKey = (table: string, { shard, order_key: key }: Key): string => `${table}.order_key is not null
      and ${table}.topic = $1::text and ${table}.shard = ${shard}
      and (${table}.order_key, ${table}.place) > (${key}, 0) and ${table}.order_key <= ${key}`
  const inOrder = (table: string): string =>
    `order by ${table}.topic, ${table}.shard, ${table}.order_key, ${table}.place`
  const firstOf = (what: string, key: Key): string => `
    select ${what} from ${queue} as f
    where ${ofKey('f', key)} and f.due_at is distinct from ${EPOCH}
    ${inOrder('f')}
    limit 1
  `
  /**
   * The message of a key that has a receipt; there is at most one. The ORDER BY makes the planner use the index,
   * because only the index provides this order.
   */
  const flightOf = (what: string, { shard, order_key: key }: Key): string => `
    select ${what} from ${queue} as g
    where g.receipt is not null and g.order_key is not null
      and g.topic = $1::text and g.shard = ${shard} and g.order_key >= ${key} and g.order_key <= ${key}
    order by g.topic, g.shard, g.order_key
    limit 1
  `
  /**
   * Makes the first message of each key visible if that message waits. If a message of the key has a receipt, nothing
   * is done: that message will become visible itself.
   */
  const release = (freed: string): string => `update ${queue} as q
  set due_at = pg_catalog.clock_timestamp()
  where q.place = any (array(
    select next.place
    from ${freed}
    cross join lateral (${firstOf('f.place, f.due_at', FREED)}) as next
    where next.due_at is null and (${flightOf('true', FREED)}) is null
  )) and q.due_at is null and q.dead_at is null`
  const unkeyed = `q.due_at is not null and q.topic = $1::text and q.shard = ${UNKEYED_SHARD}::smallint`
  const timeouts = 'timeouts + case when q.receipt is null then 0 else 1 end'
  return {
    /**
     * Locks the rows ($3) of at most $4 shards that have work: a visible message, or a handled message whose key must
     * be released, which is then the first entry. Skips rows that another receiver has locked. Also counts the rows of
     * all shards. If $5 is true, the commit does not wait for the disk.
     */
    lockReady: `
with locked as materialized (
  select asked.shard, next.due_at = ${EPOCH} as handled
  from rows from (pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::text[])) with ordinality as asked (shard, name, n)
  ${firstEntryOfShard(queue)}
  join ${schema}.leases as l on l.name = asked.name
  where next.due_at <= pg_catalog.statement_timestamp()
  order by asked.n
  limit $4
  for update of l skip locked
)
select known.locks::text as locks, locked.shard::text as shard, locked.handled::text as handled
from (
  select pg_catalog.count(*), case when $5::boolean then pg_catalog.set_config('synchronous_commit', 'off', true) end
  from ${schema}.leases
  where name = any ($3::text[])
) as known (locks, mode)
left join locked on true`,

    /**
     * Takes messages without a key, at most $4 of them and together at most $7 bytes, or one that is larger. Skips messages
     * that other receivers are taking. Leaves messages whose timeout has passed, and those that were received $3 times, to
     * the other statements: `more` says that there is such a message, or work in one of the shards $2. $5 is the receipt,
     * and $6 the visibility timeout in milliseconds. The commit does not wait for the disk: after a crash of the server, the
     * messages are visible again, and the receipts are not valid.
     */
    takeUnkeyed: `
with head as materialized (
  select q.place, q.due_at, pg_catalog.octet_length(q.payload) as bytes,
    q.receipt is null and q.timeouts = 0 and q.attempts < $3 as fresh
  from ${queue} as q
  where ${unkeyed} and q.due_at > ${EPOCH} and q.due_at <= pg_catalog.statement_timestamp()
  order by q.due_at, q.place
  limit $4
  for update skip locked
), asked as materialized (
  select exists (select from head where not head.fresh) or exists (
    select from pg_catalog.unnest($2::smallint[]) as asked (shard)
    ${firstEntryOfShard(queue)}
    where next.due_at <= pg_catalog.statement_timestamp()
  ) as more, pg_catalog.set_config('synchronous_commit', 'off', true)
), taken as (
  update ${queue} as q
  set receipt = $5::uuid, attempts = q.attempts + 1,
    due_at = pg_catalog.clock_timestamp() + $6::double precision * interval '1 millisecond'
  where q.place = any (array(
    select sized.place
    from (
      select head.place, pg_catalog.row_number() over first as n, pg_catalog.sum(head.bytes) over first as bytes
      from head
      where head.fresh
      window first as (order by head.due_at, head.place)
    ) as sized
    where sized.n = 1 or sized.bytes <= $7
  ))
  returning ${queueColumns('q')}
)
select asked.more::text as more, taken.*
from asked
left join taken on true`,

    /** Returns nothing if another receiver has locked the row, or there is no such row. */
    lockShard: `
select name from ${schema}.leases
where name = $1
for update skip locked`,

    /** Like `lockShard`, but waits for other receivers. */
    waitForShard: `
select name from ${schema}.leases
where name = $1
for update`,

    /** Deletes handled messages, at most $3 of each shard, and releases their keys. */
    sweep: `
with swept as (
  delete from ${queue}
  where ctid = any (array(
    select handled.ctid
    from pg_catalog.unnest($2::smallint[]) as asked (shard)
    cross join lateral (
      select q.ctid from ${queue} as q
      where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard and q.due_at = ${EPOCH}
      order by q.place
      limit $3
      for update skip locked
    ) as handled
  )) and due_at = ${EPOCH}
  returning shard, order_key
), released as (
  ${release('(select distinct s.shard, s.order_key from swept as s where s.order_key is not null) as freed')}
)
select pg_catalog.count(*)::text as swept from swept`,

    /** Releases the keys ($3), each in the shard at the same position of $2. */
    release: `
${release('rows from (pg_catalog.unnest($2::smallint[]), pg_catalog.unnest($3::text[])) as freed (shard, order_key)')}`,

    /**
     * The visible messages, at most $3 of each shard, those that have been visible the longest first. Skips locked
     * rows.
     */
    candidates: `
select asked.shard::text as shard, q.place::text as place, q.order_key, q.attempts::text as attempts,
  (q.${timeouts})::text as timeouts, first.place::text as first, flight.place::text as flight,
  (flight.due_at > pg_catalog.clock_timestamp())::text as live, q.bytes::text as bytes
from pg_catalog.unnest($2::smallint[]) as asked (shard)
cross join lateral (
  select q.place, q.order_key, q.attempts, q.timeouts, q.receipt, q.due_at, pg_catalog.octet_length(q.payload) as bytes
  from ${queue} as q
  where q.due_at is not null and q.topic = $1::text and q.shard = asked.shard
    and q.due_at > ${EPOCH} and q.due_at <= pg_catalog.statement_timestamp()
  order by q.due_at, q.place
  limit $3
  for update skip locked
) as q
left join lateral (${firstOf('f.place', CANDIDATE)}) as first on true
left join lateral (${flightOf('g.place, g.due_at', CANDIDATE)}) as flight on true`,

    /** Locks the messages ($1) whose receipts have expired. Skips messages that an open transaction has settled. */
    lockExpired: `
select q.place::text as place from ${queue} as q
where q.place = any ($1::bigint[]) and q.receipt is not null and q.due_at <= pg_catalog.clock_timestamp()
for update skip locked`,

    /** Makes messages ($1) wait behind another message of their key. */
    putBack: `
update ${queue} as q
set due_at = null, receipt = null, timeouts = q.${timeouts}
where q.place = any ($1::bigint[])`,

    /** Makes messages ($1) dead letters, and returns them. $2 is the error of messages that have none yet. */
    bury: `
update ${queue} as q
set dead_at = pg_catalog.clock_timestamp(), due_at = null, receipt = null, order_key = null, error = coalesce(q.error, $2)
where q.place = any ($1::bigint[])
returning ${queueColumns('q')}, q.error as error`,

    /** Gives messages ($1) a receipt ($2) and a visibility timeout ($3, in milliseconds), and returns them. */
    take: `
update ${queue} as q
set receipt = $2::uuid, attempts = q.attempts + 1, timeouts = q.${timeouts},
  due_at = pg_catalog.clock_timestamp() + $3::double precision * interval '1 millisecond'
where q.place = any ($1::bigint[])
returning ${queueColumns('q')}`,

    /** Deletes messages ($1) and returns them, for receives with `remove`. */
    takeAway: `
delete from ${queue} as q
where q.place = any ($1::bigint[])
returning ${queueColumns('q')}`,
  } as const
}

/** The microseconds since 1970, exact, as text. */
export function microseconds(instant: string): string {
  return `(extract(epoch from ${instant}) * 1000000::numeric)::bigint::text`
}
