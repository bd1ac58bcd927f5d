/*
 * MySQL and MariaDB find rows without locks, lock them by primary key, and change them, in separate statements that
 * take lists as JSON. PostgreSQL finds, locks and changes rows in one statement.
 */
import type { Tables } from '../connection/identifiers.ts'
import { messageColumns, unionAll } from '../relay/relay-statements.ts'
import type { ServerTraits } from '../connection/server.ts'

/**
 * The `due_at` of handled messages that are part of the order of a key. Such a row tells receivers to release the key:
 * to make its next message visible.
 */
export const EPOCH = "'1970-01-01'"

const MICROSECONDS = "timestampdiff(microsecond, '1970-01-01'"

/**
 * All statements of a receive. `?` is replaced by a value as a literal. A plain read finds rows, and another statement
 * locks them by their primary keys: a search that locks would wait for open transactions of senders and handlers.
 *
 * Only receivers decide which message of a key is visible, and a shard has one receiver at a time: a receiver first
 * locks the row of the shard in `leases`.
 */
export function queueReceiveStatements({ queue, leases }: Tables, engine: ServerTraits['engine']) {
  /** MySQL refuses to lock the rows of JSON_TABLE; MariaDB has no OF. */
  const forUpdate = engine === 'mysql' ? 'for update of q' : 'for update'
  return {
    /** Counts the rows of the shards of a queue. These rows are never deleted. */
    shardRows: `
(select null as shard, cast(count(*) as char) as locks from ${leases} where name in (?))`,

    /**
     * One branch of `ready`: returns the shard if it has work, which is a visible message or a handled message whose
     * key must be released.
     */
    readyShard: `
(select cast(? as char) as shard, null as locks from ${queue} as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at <= utc_timestamp(6) limit 1)`,

    ready: unionAll,

    knownShards: `
select hex(name) as name
from ${leases}
where name in (?)`,

    seedShard: '(?)',

    /** Adds the missing rows of shards. Fails with error 1062 if another receiver has added one of them. */
    seedShards: (rows: readonly string[]) => `
insert into ${leases} (name)
values ${rows.join(', ')}`,

    /** Returns nothing if another receiver has locked the row. */
    lockShard: `
select '1' as locked
from ${leases}
where name = ?
for update skip locked`,

    /** Like `lockShard`, but waits for other receivers. */
    waitForShard: `
select '1' as locked
from ${leases}
where name = ?
for update`,

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
     * The visible messages after a position, those that have been visible the longest first. The values are the queue,
     * the shard, the position (its microseconds twice, and its place), and the limit.
     */
    findDue: `
select cast(q.place as char) as place, cast(${MICROSECONDS}, q.due_at) as char) as due_us
from ${queue} as q force index (queue_due)
where q.topic = ? and q.shard = ? and q.due_at <= utc_timestamp(6)
  and q.due_at >= cast('1970-01-01' as datetime(6)) + interval ? microsecond
  and (q.due_at > cast('1970-01-01' as datetime(6)) + interval ? microsecond or q.place > ?)
order by q.due_at, q.place
limit ?`,

    /**
     * Locks the rows that no other transaction has locked, and returns them. The sizes of payloads are read only for
     * the first rows.
     */
    lock: `
select cast(q.place as char) as place, q.topic as topic, hex(q.order_key) as order_key, hex(q.receipt) as receipt,
  cast(q.attempts as char) as attempts, cast(q.timeouts as char) as timeouts,
  cast(q.due_at is null as char) as waits, cast(q.due_at > ${EPOCH} and q.due_at <= utc_timestamp(6) as char) as visible,
  cast(q.due_at > utc_timestamp(6) as char) as live, cast(q.dead_at is not null as char) as dead,
  cast(${MICROSECONDS}, q.due_at) as char) as due_us, case when j.n <= ${SIZED} then (
    select cast(length(p.payload) as char) from ${queue} as p force index (primary) where p.place = q.place
  ) end as bytes
from ${NUMBERED}
straight_join ${queue} as q force index (primary) on q.place = j.place
${forUpdate} skip locked`,

    /** Locks the rows that no other transaction has locked, and reads nothing else of them. */
    hold: `
select cast(q.place as char) as place
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
${forUpdate} skip locked`,

    /** To determine a size, the server reads the whole payload. */
    sizes: `
select cast(q.place as char) as place, cast(length(q.payload) as char) as bytes
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place`,

    /**
     * For each key: the first message and whether it waits, and the message that has a receipt and whether the receipt
     * is still valid. The values are the queue, the shard, the queue, the shard, and the keys in hexadecimal.
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

    /** Makes waiting messages visible. */
    release: `
update ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.due_at = utc_timestamp(6)
where q.due_at is null and q.dead_at is null`,

    /**
     * Adds a row of a handled message, so that a later receive releases the key: only receivers make waiting messages
     * visible. The values are the queue, the shard, and the key.
     */
    free: `
insert into ${queue} (topic, shard, order_key, due_at, created_at, id, content_type, headers, payload)
values (?, ?, ?, ${EPOCH}, utc_timestamp(6), '', '', '', '')`,

    /** Makes messages wait behind another message of their key. */
    putBack: `
update ${COUNTED}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.due_at = null, q.receipt = null, q.timeouts = j.timeouts`,

    /** Reads the errors that the last receivers of messages have reported. */
    errors: `
select cast(q.place as char) as place, cast(q.error as binary) as error
from ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place`,

    /** The first value is the error of messages that have none yet. */
    buryAll: `
update ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.dead_at = utc_timestamp(6), q.due_at = null, q.receipt = null, q.order_key = null, q.error = ifnull(q.error, ?)`,

    /**
     * Gives messages a receipt and a visibility timeout. The values are the messages, the receipt, and the visibility
     * timeout in microseconds.
     */
    take: `
update ${COUNTED}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.receipt = ?, q.attempts = q.attempts + 1, q.timeouts = j.timeouts,
  q.due_at = utc_timestamp(6) + interval ? microsecond`,

    /** Reads messages that this transaction has locked. The first value is the maximum size of a payload. */
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

    extend: `
update ${PLACES}
straight_join ${queue} as q force index (primary) on q.place = j.place
set q.due_at = utc_timestamp(6) + interval ? microsecond`,
  } as const
}

/** The number of candidates whose payload sizes are read together with their rows. */
export const SIZED = 16

/** A list of places as JSON, as a table with the position of each in the list. */
const NUMBERED =
  "json_table(?, _utf8mb4'$[*]' columns (n for ordinality, place bigint unsigned path _utf8mb4'$')) as j"

const PLACES = "json_table(?, _utf8mb4'$[*]' columns (place bigint unsigned path _utf8mb4'$')) as j"

/** A list of places as JSON, as a table with the number of visibility timeouts that have passed for each. */
const COUNTED = `json_table(?, _utf8mb4'$[*]' columns (
  place bigint unsigned path _utf8mb4'$[0]', timeouts int unsigned path _utf8mb4'$[1]'
)) as j`
