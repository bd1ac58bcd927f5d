/*
 * PostgreSQL changes and returns rows in one statement, and takes lists as arrays; MySQL and MariaDB take lists as
 * JSON, and read the rows that they have changed.
 */
import { MESSAGE_COLUMNS, messageArrays } from '../outbox/outbox-statements.ts'
import { EPOCH, microseconds, queueColumns } from './queue-receive-statements.ts'

/** All statements on the stored queues, except those of a receive. `schema` is quoted. */
export function queueStatements(schema: string) {
  const queue = `${schema}.queue`
  /**
   * Selects messages of the queue $1 by place ($2) and receipt ($3), through the primary key. The receipts are compared in a
   * subquery that the planner hashes; a join might scan the table. The queue is compared last: with its index, the planner might
   * scan the queue.
   */
  const received = `place = any ($2::bigint[])
  and case when (place, receipt) in (select pg_catalog.unnest($2::bigint[]), pg_catalog.unnest($3::uuid[])) then topic = $1::text end`
  const valid = `${received}
  and due_at > pg_catalog.clock_timestamp()`
  const one =
    'topic = $1::text and place = $2::bigint and receipt = $3::uuid and due_at > pg_catalog.clock_timestamp()'
  const handled = `due_at = ${EPOCH}, receipt = null, payload = ''`
  const purge = (chosen: string): string => `
with gone as (
  delete from ${queue}
  where ctid = any (array(
    select q.ctid from ${queue} as q
    where q.topic = $1 and q.shard = $2 and ${chosen}
    limit $3
    for update skip locked
  ))
  returning order_key, due_at
)
select (select pg_catalog.count(*) from gone where gone.due_at is distinct from ${EPOCH})::text as removed,
  (select pg_catalog.count(*) from gone)::text as deleted,
  pg_catalog.to_json(array(select distinct gone.order_key from gone where gone.order_key is not null))::text as keys`
  return {
    /** Stores one message, which is visible at once. `order_key` is the key. */
    send: `
insert into ${queue} (${MESSAGE_COLUMNS}, order_key, due_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $4, pg_catalog.clock_timestamp())`,

    /** Stores many messages, numbered in the order given: the default of `place` is evaluated after the sort. */
    sendBatch: `
insert into ${queue} (${MESSAGE_COLUMNS}, order_key, due_at)
select ${MESSAGE_COLUMNS}, key, pg_catalog.clock_timestamp()
from ${messageArrays()} with ordinality as given (${MESSAGE_COLUMNS}, n)
order by n`,

    /**
     * Stores messages that become visible at an instant ($11, in milliseconds). The instant 0 is replaced by 1 ms,
     * because `due_at` at the epoch marks handled messages.
     */
    schedule: `
insert into ${queue} (${MESSAGE_COLUMNS}, deliver_at, due_at)
select ${MESSAGE_COLUMNS}, pg_catalog.to_timestamp(given.at_ms / 1000::double precision),
  pg_catalog.to_timestamp(greatest(given.at_ms, 1) / 1000::double precision)
from ${messageArrays(', pg_catalog.unnest($11::double precision[])')} as given (${MESSAGE_COLUMNS}, at_ms)`,

    /** Marks a message as handled, so that a receiver releases its key. Has no RETURNING, which is faster. */
    settle: `
update ${queue}
set ${handled}
where ${one} and order_key is not null`,

    settleBatch: `
update ${queue}
set ${handled}
where ${valid} and order_key is not null
returning place::text as place`,

    /** Deletes a message that is not part of the order of a key, so that no key has to be released. */
    settleUnordered: `
delete from ${queue}
where ${one} and order_key is null`,

    settleUnorderedBatch: `
delete from ${queue}
where ${valid} and order_key is null
returning place::text as place`,

    /**
     * Extends the visibility timeout ($4). A message that an open transaction has locked is not changed, but its place
     * is returned as well while its receipt is valid, because no other receiver can get the message. The time is read
     * after the attempt to lock the message: a receiver locks only messages whose timeout is over. With a timeout of 0,
     * the message becomes visible at once and loses its receipt.
     */
    extend: `
with found as materialized (
  select place, due_at from ${queue}
  where ${received}
), locked as materialized (
  select place from ${queue}
  where ${received}
  order by place
  for update skip locked
), extended as (
  update ${queue} as q
  set due_at = pg_catalog.clock_timestamp() + $4::double precision * interval '1 millisecond',
    receipt = case when $4::double precision > 0::double precision then q.receipt end
  where q.place = any (array(select locked.place from locked)) and q.due_at > pg_catalog.clock_timestamp()
  returning q.place
)
select found.place::text as place
from found
where case when found.place in (select locked.place from locked) then found.place in (select extended.place from extended)
  else found.due_at > pg_catalog.clock_timestamp() end`,

    /**
     * Restarts the visibility timeout ($4), also after its end: a receiver that takes the message or puts it back changes
     * the receipt.
     */
    renew: `
update ${queue}
set due_at = pg_catalog.clock_timestamp() + $4::double precision * interval '1 millisecond'
where topic = $1::text and place = $2::bigint and receipt = $3::uuid
returning place::text as place`,

    /**
     * $4 is the pause in milliseconds; $5 the error, where null keeps the previous one; $6 is 1 if the receive does not
     * count. Without a pause, a null `due_at` would hide the message from all receivers.
     */
    giveBack: `
update ${queue}
set receipt = null,
  due_at = pg_catalog.clock_timestamp() + coalesce($4::double precision, 0) * interval '1 millisecond',
  error = coalesce($5, error), attempts = attempts - $6::integer, timeouts = 0
where ${one}
returning place::text as place`,

    /**
     * Makes the message a dead letter. A row of a handled message replaces it in the key, so that a receiver releases
     * the key: only receivers make waiting messages visible.
     */
    bury: `
with chosen as materialized (
  select place, topic, shard, order_key from ${queue}
  where ${one}
  for update
), buried as (
  update ${queue} as q
  set dead_at = pg_catalog.clock_timestamp(), due_at = null, receipt = null, order_key = null, error = $4
  from chosen
  where q.place = chosen.place
  returning q.place
), freed as (
  insert into ${queue} (topic, shard, order_key, due_at, id, content_type, headers, payload)
  select chosen.topic, chosen.shard, chosen.order_key, ${EPOCH}, '', '', '', ''
  from chosen join buried using (place)
  where chosen.order_key is not null
)
select place::text as place from buried`,

    /**
     * Removes the messages of a shard ($2) that have a `due_at` and are not in flight: visible messages, scheduled
     * messages, and messages that wait for a retry. Also returns the keys whose first remaining message must become
     * visible. Handled messages are removed too, but not counted as removed.
     */
    purge: purge(`q.due_at is not null
      and (q.receipt is null or q.due_at <= pg_catalog.clock_timestamp())`),

    /** Removes messages that wait behind another message of their key. */
    purgeWaiting: purge('q.order_key is not null and q.due_at is null'),

    /** Forgets deduplication ids, except those that an open transaction has locked. */
    forget: `
delete from ${schema}.inbox
where ctid = any (array(
  select i.ctid from ${schema}.inbox as i
  where i.consumer = $1
  limit $2
  for update skip locked
))
returning 'true' as forgotten`,

    /** Claims the id of a repeatable receive. Waits for an open transaction that has claimed the same id. */
    claimAttempt: `
insert into ${schema}.inbox (consumer, key, processed_at, expires_at)
values ($1, $2, pg_catalog.clock_timestamp(), pg_catalog.clock_timestamp() + $3::double precision * interval '1 millisecond')
on conflict (consumer, key) do nothing
returning key`,

    /**
     * Reads the claim that stores the answer of a receive, and locks it, so that concurrent repetitions wait for each
     * other.
     */
    remembered: `
select (expires_at > pg_catalog.clock_timestamp())::text as live, result,
  ${microseconds('pg_catalog.clock_timestamp()')} as now_us
from ${schema}.inbox
where consumer = $1 and key = $2
for update`,

    /** Reads and locks the messages of an answer. Messages that another transaction has locked are left out. */
    recall: `
select q.place::text as place, q.receipt::text as receipt, ${microseconds('q.due_at')} as due_us
from ${queue} as q
where q.place = any ($1::bigint[]) and q.receipt is not null
for update skip locked`,

    extendRecalled: `
update ${queue} as q
set due_at = pg_catalog.clock_timestamp() + $2::double precision * interval '1 millisecond'
where q.place = any ($1::bigint[])
returning ${queueColumns('q')}`,
  } as const
}
