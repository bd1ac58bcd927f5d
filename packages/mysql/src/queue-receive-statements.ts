/*
 * MySQL and MariaDB find without a lock, lock by primary key and change in statements of their own, and take lists as JSON.
 * PostgreSQL finds, locks and changes in one statement.
 */
import type { Tables } from './identifiers.ts'
import { messageColumns, unionAll } from './relay-statements.ts'
import type { ServerTraits } from './server.ts'

/** The instant from which handled messages are visible, whose keys have to go on. */
export const EPOCH = "'1970-01-01'"

const MICROSECONDS = "timestampdiff(microsecond, '1970-01-01'"

/**
 * Every statement of a receive. `?` is replaced by a value as a literal. Rows are found by a plain read and then locked by
 * their primary keys: a search that locks would wait for the open transactions of senders and handlers.
 *
 * Receivers alone decide which message of a key is visible, one receiver at a time: each has locked the row of the shard.
 */
export function queueReceiveStatements({ queue, leases }: Tables, engine: ServerTraits['engine']) {
  /** MySQL refuses to lock the rows of JSON_TABLE; MariaDB has no OF. */
  const forUpdate = engine === 'mysql' ? 'for update of q' : 'for update'
  return {
    /** Whether a queue has rows that stand for its shards. The rows are never deleted. */
    shardRows: `
(select null as shard, cast(count(*) as char) as locks from ${leases} where name in (?))`,

    /** A shard that has something visible, or a handled message whose key has to go on. A branch for each shard. */
    readyShard: `
(select ? as shard, null as locks from ${queue} as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at <= utc_timestamp(6) limit 1)`,

    /** All branches in one statement. */
    ready: unionAll,

    knownShards: `
select hex(name) as name
from ${leases}
where name in (?)`,

    /** One row of `seedShards`. */
    seedShard: '(?)',

    /** Adds the rows that stand for shards, or fails with 1062 if another receiver has added one of them. */
    seedShards: (rows: readonly string[]) => `
insert into ${leases} (name)
values ${rows.join(', ')}`,

    /** The row that stands for a shard; nothing if another receiver has it. */
    lockShard: `
select 1 as locked
from ${leases}
where name = ?
for update skip locked`,

    /** The same, but waits for other receivers. */
    waitForShard: `
select 1 as locked
from ${leases}
where name = ?
for update`,

    /** Handled messages, whose keys have to go on. */
    findHandled: `
select cast(q.place as char) as place, hex(q.order_key) as order_key
from ${queue} as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at = ${EPOCH}
limit ?`,

    removeHandled: `
delete q
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
where q.due_at = ${EPOCH}`,

    /**
     * The visible messages behind a position, those that have been visible the longest first. The values are the queue, the
     * shard, the position, in microseconds and places, and the limit.
     */
    findDue: `
select cast(q.place as char) as place, cast(${MICROSECONDS}, q.due_at) as char) as due_us
from ${queue} as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at <= utc_timestamp(6)
  and q.due_at >= cast('1970-01-01' as datetime(6)) + interval ? microsecond
  and (q.due_at > cast('1970-01-01' as datetime(6)) + interval ? microsecond or q.place > ?)
order by q.due_at, q.place
limit ?`,

    /** Locks the rows that no other transaction has locked. */
    lock: `
select cast(q.place as char) as place, hex(q.order_key) as order_key, hex(q.receipt) as receipt,
  cast(q.attempts as char) as attempts, cast(q.timeouts as char) as timeouts,
  cast(q.due_at is null as char) as waits, cast(q.due_at > ${EPOCH} and q.due_at <= utc_timestamp(6) as char) as visible,
  cast(q.due_at > utc_timestamp(6) as char) as live, cast(q.dead_at is not null as char) as dead,
  cast(${MICROSECONDS}, q.due_at) as char) as due_us, case when j.n <= ${SIZED} then (
    select cast(length(p.payload) as char) from ${queue} as p force index (primary) where p.place = q.place
  ) end as bytes
from ${NUMBERED}
straight_join ${queue} as q force index (primary) on q.place = j.place
${forUpdate} skip locked`,

    /** The sizes of payloads: to know it, the server reads the whole payload. */
    sizes: `
select cast(q.place as char) as place, cast(length(q.payload) as char) as bytes
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place`,

    /**
     * Of each key, the first message and whether it waits, and the message that has a receipt and whether the receipt is
     * valid. The values are the queue, the shard, the queue, the shard, and the keys in hexadecimal.
     */
    heads: `
select k.hexadecimal as order_key, cast(k.first as char) as first,
  cast(k.first is not null and f.due_at is null as char) as waits,
  cast(k.flight as char) as flight, cast(g.due_at > utc_timestamp(6) as char) as live
from (
  select j.hexadecimal, (
    select f.place from ${queue} as f force index (queue_order)
    where f.topic = ? and f.shard = ? and f.order_key = unhex(j.hexadecimal) and (f.due_at is null or f.due_at > ${EPOCH})
    order by f.topic, f.shard, f.order_key, f.place
    limit 1
  ) as first, (
    select g.place from ${queue} as g force index (queue_flight)
    where g.topic = ? and g.shard = ? and g.flight = 1 and g.order_key = unhex(j.hexadecimal)
    order by g.due_at desc
    limit 1
  ) as flight
  from json_table(?, _utf8mb4'$[*]' columns (hexadecimal varchar(2040) character set ascii path _utf8mb4'$')) as j
) as k
left join ${queue} as f force index (primary) on f.place = k.first
left join ${queue} as g force index (primary) on g.place = k.flight`,

    /** Makes messages visible that wait, and have been locked. */
    release: `
update ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.due_at = utc_timestamp(6)
where q.due_at is null and q.dead_at is null`,

    /** Lets messages wait behind another of their key. */
    putBack: `
update ${COUNTED}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.due_at = null, q.receipt = null, q.timeouts = j.timeouts`,

    /** Makes messages dead letters. The first value is the error of those that have none. */
    buryAll: `
update ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.dead_at = utc_timestamp(6), q.due_at = null, q.receipt = null, q.order_key = null, q.error = ifnull(q.error, ?)`,

    /** The values are the messages, the receipt, and the visibility timeout in microseconds. */
    take: `
update ${COUNTED}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.receipt = ?, q.attempts = q.attempts + 1, q.timeouts = j.timeouts,
  q.due_at = utc_timestamp(6) + interval ? microsecond`,

    /** Reads messages that this transaction has locked. The first value bounds the size of their payloads. */
    read: `
select ${messageColumns('q', 'place')},
  cast(q.shard as char) as shard, cast(q.attempts as char) as attempts, cast(q.timeouts as char) as timeouts,
  cast(q.order_key is not null as char) as ordered, cast(${MICROSECONDS}, q.due_at) as char) as due_us
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place`,

    /** Removes messages that this transaction has locked. */
    remove: `
delete q
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place`,

    /** Begins the visibility timeout of locked messages again. */
    extend: `
update ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.due_at = utc_timestamp(6) + interval ? microsecond`,
  } as const
}

/** The number of candidates whose sizes are read at once. */
export const SIZED = 16

/** Places with their numbers in the list, as JSON. */
const NUMBERED =
  "json_table(?, _utf8mb4'$[*]' columns (n for ordinality, place bigint unsigned path _utf8mb4'$')) as j"

/** Places, as JSON. */
const PLACES = "json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j"

/** Places, and how often the visibility timeout has passed, as JSON. */
const COUNTED = `json_table(?, _utf8mb4'$[*]' columns (
  place bigint unsigned path _utf8mb4'$[0]', timeouts int unsigned path _utf8mb4'$[1]'
)) as j`

/** The same for both engines; the first use shows which engine the server runs. */
export function queueReceiveStatementsByEngine(tables: Tables) {
  return {
    mysql: queueReceiveStatements(tables, 'mysql'),
    mariadb: queueReceiveStatements(tables, 'mariadb'),
  }
}
