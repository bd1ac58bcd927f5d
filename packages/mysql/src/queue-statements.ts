/*
 * MySQL and MariaDB change rows without returning them, and cut a batch into packets; PostgreSQL changes and returns rows in
 * one statement, on arrays.
 */
import type { Tables } from './identifiers.ts'
import { EPOCH } from './queue-receive-statements.ts'

/**
 * Every statement on the stored queues but those of a receive. `?` is replaced by a value as a literal. Messages are found
 * by their places: a settlement in a handler's transaction locks no other row. Only if the message is gone does it lock, at
 * REPEATABLE READ, the gap in which the message was, until the caller rolls back.
 */
export function queueStatements({ queue }: Tables) {
  const rows = (pairs: readonly string[]): string =>
    `q.place in (?) and (q.place, q.receipt) in (${pairs.join(', ')})`
  const valid = (pairs: readonly string[]): string => `${rows(pairs)} and q.due_at > utc_timestamp(6)`
  const handled = `q.due_at = ${EPOCH}, q.receipt = null, q.payload = ''`
  const append = (more: string, messages: readonly string[]): string => `
insert into ${queue}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, payload, ${more})
values ${messages.join(',')}`
  const row = '(?, ?, ?, ?, ?, ?, ?, ?, ?'
  return {
    /** One message or many, numbered in the order of the rows, and visible at once. */
    send: (messages: readonly string[]) => append('order_key, created_at, due_at', messages),

    /** One row of `send`; the last value is the key. */
    sendRow: `${row}, ?, utc_timestamp(6), utc_timestamp(6))`,

    /** Messages that are not visible before an instant. They have no order. */
    schedule: (messages: readonly string[]) => append('created_at, deliver_at, due_at', messages),

    /** One row of `schedule`; the last values are the instant, twice, in milliseconds. */
    scheduleRow: `${row}, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)`,

    /** Deletes messages that were written outside a transaction. The values are the number of the first message, and the ids. */
    takeBack: `
delete from ${queue}
where place >= ? and id in (?)`,

    /** A place and its receipt. */
    pair: '(?, ?)',

    /** Locks the messages whose receipts are valid. Waits for a transaction that has settled one of them. */
    holdValid: (pairs: readonly string[]) => `
select cast(q.place as char) as place, hex(q.receipt) as receipt, q.order_key as order_key, cast(q.shard as char) as shard,
  q.topic as topic
from ${queue} as q force index (primary)
where ${valid(pairs)}
for update`,

    /** Marks a message as handled, and its key as one that has to go on. */
    settle: (pairs: readonly string[]) => `
update ${queue} as q force index (primary)
set ${handled}
where ${valid(pairs)} and q.order_key is not null`,

    /** A message without an order leaves nothing that has to go on. */
    settleUnordered: (pairs: readonly string[]) => `
delete q
from ${queue} as q force index (primary)
where ${valid(pairs)} and q.order_key is null`,

    /**
     * The same of messages that `holdValid` has locked in this transaction, and that nobody else can receive before it ends:
     * their visibility timeouts may be over by now.
     */
    settleHeld: (pairs: readonly string[]) => `
update ${queue} as q force index (primary)
set ${handled}
where ${rows(pairs)} and q.order_key is not null`,

    settleHeldUnordered: (pairs: readonly string[]) => `
delete q
from ${queue} as q force index (primary)
where ${rows(pairs)} and q.order_key is null`,

    /** A plain read of the messages that have these receipts, valid or not. */
    find: (pairs: readonly string[]) => `
select cast(q.place as char) as place, hex(q.receipt) as receipt
from ${queue} as q force index (primary)
where ${rows(pairs)}`,

    /** Messages that are visible at once are no longer received. */
    giveUp: `
update ${queue} as q force index (primary)
set q.due_at = utc_timestamp(6), q.receipt = null
where q.place in (?)`,

    /**
     * The values are the pause in microseconds, the error, which stays when this is null, 1 to take the receive back, the place,
     * and the receipt.
     */
    giveBack: `
update ${queue} as q force index (primary)
set q.receipt = null, q.due_at = utc_timestamp(6) + interval ? microsecond,
  q.error = ifnull(?, q.error), q.attempts = q.attempts - ?, q.timeouts = 0
where q.place = ? and q.receipt = ? and q.due_at > utc_timestamp(6)`,

    /** Makes a message a dead letter that this transaction has locked. */
    bury: `
update ${queue} as q force index (primary)
set q.dead_at = utc_timestamp(6), q.due_at = null, q.receipt = null, q.order_key = null, q.error = ?
where q.place = ?`,

    /**
     * Takes the place of a message that was buried: a row that stands for a handled message, so that the key goes on. Only
     * receivers release messages.
     */
    free: `
insert into ${queue} (topic, shard, order_key, due_at, created_at, id, content_type, headers, payload)
values (?, ?, ?, ${EPOCH}, utc_timestamp(6), '', '', '', '')`,
  } as const
}
