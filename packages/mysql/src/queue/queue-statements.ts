/*
 * MySQL and MariaDB change rows without returning them, and split a batch into packets; PostgreSQL changes and returns
 * rows in one statement, and takes lists as arrays.
 */
import type { Tables } from '../connection/identifiers.ts'
import { EPOCH } from './queue-receive-statements.ts'

/**
 * All statements on the stored queues, except those of a receive. `?` is replaced by a value as a literal. Messages are
 * found by their places, so that a settlement in a handler's transaction locks no other row. Only at REPEATABLE READ does
 * a refused settlement lock the message, or the gap where the message was, until the caller rolls back. No savepoint
 * would end these locks, and a locking read would take the same ones.
 */
export function queueStatements({ queue }: Tables) {
  const rows = (pairs: readonly string[]): string =>
    `q.place in (?) and (q.place, q.receipt) in (${pairs.join(', ')}) and q.topic = ?`
  const valid = (pairs: readonly string[]): string => `${rows(pairs)} and q.due_at > utc_timestamp(6)`
  const handled = `q.due_at = ${EPOCH}, q.receipt = null, q.payload = ''`
  const append = (more: string, messages: readonly string[]): string => `
insert into ${queue}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, trace_context, payload, ${more})
values ${messages.join(',')}`
  const row = '(?, ?, ?, ?, ?, ?, ?, ?, ?, ?'
  return {
    /** Stores one or more messages, which are visible at once. They are numbered in the order of the rows. */
    send: (messages: readonly string[]) => append('order_key, created_at, due_at', messages),

    /** One row of `send`; the last value is the key. */
    sendRow: `${row}, ?, utc_timestamp(6), utc_timestamp(6))`,

    /** Stores messages that become visible at an instant. They are not part of the order of a key. */
    schedule: (messages: readonly string[]) => append('created_at, deliver_at, due_at', messages),

    /** One row of `schedule`; the last two values are both the instant, in milliseconds. */
    scheduleRow: `${row}, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)`,

    /**
     * Deletes messages that were written outside of a transaction. The values are the number of the first message, and
     * the ids.
     */
    takeBack: `
delete from ${queue}
where place >= ? and id in (?)`,

    pair: '(?, ?)',

    /** Locks the messages whose receipts are valid. Waits for a transaction that has settled one of them. */
    holdValid: (pairs: readonly string[]) => `
select cast(q.place as char) as place, hex(q.receipt) as receipt, q.order_key as order_key, cast(q.shard as char) as shard,
  q.topic as topic
from ${queue} as q force index (primary)
where ${valid(pairs)}
for update`,

    /** Marks messages as handled, so that a receiver releases their keys. */
    settle: (pairs: readonly string[]) => `
update ${queue} as q force index (primary)
set ${handled}
where ${valid(pairs)} and q.order_key is not null`,

    /** Deletes messages that are not part of the order of a key, so that no key has to be released. */
    settleUnordered: (pairs: readonly string[]) => `
delete q
from ${queue} as q force index (primary)
where ${valid(pairs)} and q.order_key is null`,

    /**
     * Like `settle`, for messages that `holdValid` has locked in this transaction. Their visibility timeouts may be
     * over by now, but no other receiver can get them before the transaction ends.
     */
    settleHeld: (pairs: readonly string[]) => `
update ${queue} as q force index (primary)
set ${handled}
where ${rows(pairs)} and q.order_key is not null`,

    settleHeldUnordered: (pairs: readonly string[]) => `
delete q
from ${queue} as q force index (primary)
where ${rows(pairs)} and q.order_key is null`,

    /** Finds the messages whose receipts are valid, by a plain read. */
    find: (pairs: readonly string[]) => `
select cast(q.place as char) as place, hex(q.receipt) as receipt
from ${queue} as q force index (primary)
where ${valid(pairs)}`,

    /**
     * Restarts the visibility timeout, also after its end: a receiver that takes the message or puts it back changes the
     * receipt. The values are the timeout in microseconds, the place, the receipt, and the queue.
     */
    renew: `
update ${queue} as q force index (primary)
set q.due_at = utc_timestamp(6) + interval ? microsecond
where q.place = ? and q.receipt = ? and q.topic = ?`,

    /** Makes messages visible at once, and withdraws their receipts. */
    giveUp: `
update ${queue} as q force index (primary)
set q.due_at = utc_timestamp(6), q.receipt = null
where q.place in (?)`,

    /**
     * The values are the pause in microseconds, the error (null keeps the previous one), 1 if the receive does not
     * count and 0 if it does, the place, the receipt, and the queue.
     */
    giveBack: `
update ${queue} as q force index (primary)
set q.receipt = null, q.due_at = utc_timestamp(6) + interval ? microsecond,
  q.error = ifnull(?, q.error), q.attempts = q.attempts - ?, q.timeouts = 0
where q.place = ? and q.receipt = ? and q.topic = ? and q.due_at > utc_timestamp(6)`,

    /** Makes a message that this transaction has locked a dead letter. */
    bury: `
update ${queue} as q force index (primary)
set q.dead_at = utc_timestamp(6), q.due_at = null, q.receipt = null, q.order_key = null, q.error = ?
where q.place = ?`,
  } as const
}
