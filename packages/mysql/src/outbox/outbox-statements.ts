/*
 * MySQL and MariaDB insert rows as VALUES, and may have to delete them again; PostgreSQL takes a batch as arrays, one
 * for each column, and can notify.
 */
import type { Tables } from '../connection/identifiers.ts'

/**
 * The number of rows in the table of key locks, as migration 0009 creates them. The hash of a key decides which row is
 * its lock.
 */
export const KEY_LOCKS = 16_384

/** All statements on the outbox table that a producer runs. `?` is replaced by a value as a literal. */
export function outboxStatements({
  outbox,
  parked,
  localOutbox,
  localParked,
  subscriptions,
  keyLocks,
}: Tables) {
  const append = (rows: readonly string[]): string => `
insert into ${outbox}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, trace_context, payload, created_at)
values ${rows.join(',')}`
  return {
    /** Inserts one or more messages, numbered in the order of the rows. */
    append,

    /** Like `append`; the first row of the call is `appendLockedRow`. */
    appendLocked: append,

    appendRow: '(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))',

    /**
     * A row of `append` that first locks the rows of its keys until the transaction ends. The server evaluates the
     * values of the first row before it draws the first number of the statement. The subquery reads the primary key, so
     * that all calls lock in the same order; without FORCE INDEX it may read and lock the whole table. The values are
     * the number of locks, the shard, the locks, and the other columns.
     *
     * If rows are missing, EXP overflows, which is an error in every SQL mode: a missing row would lock nothing.
     */
    appendLockedRow: `((select if(count(*) = ?, ?, exp(1000 + count(*))) from ${keyLocks} force index (primary) where number in (?) for update),
  ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))`,

    /**
     * Deletes messages that were written outside of a transaction. The values are the number of the first message, and
     * the ids.
     */
    takeBack: `
delete from ${outbox}
where seq >= ? and id in (?)`,

    /** Stores scheduled messages as parked messages until they are due. They are not part of the order of a key. */
    schedule: (rows: readonly string[]) => `
insert into ${parked}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, trace_context, payload, created_at, deliver_at, due_at)
values ${rows.join(',')}`,

    /** One row of `schedule`; the last two values are both the instant, in milliseconds. */
    scheduleRow: `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)`,

    takeBackScheduled: `
delete from ${parked}
where place >= ? and id in (?)`,

    /**
     * Locks the rows of keys until the transaction ends, as `appendLockedRow` does. A statement of its own, because the
     * subscriptions must be read after the locks are taken: otherwise a new subscriber would get some of the messages of a key,
     * and miss a later one.
     */
    lockKeys: `
select cast(count(*) as char) as locked
from ${keyLocks} force index (primary)
where number in (?)
for update`,

    /**
     * Inserts one row for each message and consumer, ordered by message, then by consumer. The sort reads all subscriptions before
     * the first row is inserted: MariaDB holds the counter of the table from the first row to the end of the statement.
     *
     * At READ COMMITTED the subscriptions are those of this moment; at REPEATABLE READ too, and they are locked.
     *
     * @param subscribers pairs of type and consumer, as queries.
     * @param conditions the conditions under which anything is stored.
     */
    appendLocal: (
      messages: readonly string[],
      subscribers: readonly string[],
      conditions: readonly string[],
    ) => `
insert into ${localOutbox}
  (consumer, shard, id, topic, \`key\`, type, content_type, headers, correlation_id, trace_context, payload, created_at)
select s.consumer, m.shard, m.id, m.topic, m.\`key\`, m.type, m.content_type, m.headers, m.correlation_id, m.trace_context, m.payload,
  utc_timestamp(6)
${eachSubscriber(messages, subscribers)}${conditions.join('')}
order by m.n, s.consumer`,

    /** One message of `appendLocal`, by its place in the call. */
    localMessage: `select ? as n, ${NAMED_COLUMNS}`,

    /** Like `appendLocal`, for scheduled messages. They are not part of the order of a key. */
    scheduleLocal: (
      messages: readonly string[],
      subscribers: readonly string[],
      conditions: readonly string[],
    ) => `
insert into ${localParked}
  (consumer, shard, id, topic, \`key\`, type, content_type, headers, correlation_id, trace_context, payload, created_at, deliver_at, due_at)
select s.consumer, m.shard, cast(m.id as binary), m.topic, m.\`key\`, m.type, m.content_type, m.headers, m.correlation_id, m.trace_context, m.payload,
  utc_timestamp(6), '1970-01-01' + interval m.at_ms * 1000 microsecond, '1970-01-01' + interval m.at_ms * 1000 microsecond
${eachSubscriber(messages, subscribers)}${conditions.join('')}
order by m.n, s.consumer`,

    scheduledLocalMessage: `select ? as n, ${NAMED_COLUMNS}, ? as at_ms`,

    /** The subscribers that are registered for some types. */
    registeredSubscribers: `select r.type, r.consumer from ${subscriptions} as r force index (primary) where r.type in (?)`,

    /** A subscriber that the outbox was created with. */
    givenSubscriber: 'select ? as type, ? as consumer',

    /** The condition that each of some types has a registered subscriber. The last value is the number of types. */
    routed: `
where (select count(distinct u.type) from ${subscriptions} as u force index (primary) where u.type in (?)) = ?`,

    /**
     * Which of some types have a registered subscriber now. Not read from a snapshot of the transaction: the INSERT has not read
     * the subscriptions from one either.
     */
    routedTypes: `
select distinct hex(u.type) as type
from ${subscriptions} as u force index (primary)
where u.type in (?)
lock in share mode`,

    /** The types that have registered subscribers, for an error message. */
    knownTypes: `
select hex(k.type) as type
from ${subscriptions} as k
group by k.type
order by k.type
limit ?`,

    takeBackLocal: `
delete from ${localOutbox}
where seq >= ? and id in (?)`,

    takeBackScheduledLocal: `
delete from ${localParked}
where place >= ? and id in (?)`,
  } as const
}

/** Between two messages of `appendLocal`. */
export const BETWEEN_MESSAGES = '\nunion all '

/** The values that all tables of messages have in common, as columns with names. */
const NAMED_COLUMNS =
  '? as shard, ? as id, ? as topic, ? as `key`, ? as type, ? as content_type, ? as headers, ? as correlation_id, ? as trace_context, ? as payload'

/**
 * Messages that are joined with their subscribers. JSON_TABLE cannot take payloads, so each message is a query of its own. A
 * consumer that is both registered and given gets one row. Types are compared as bytes.
 */
function eachSubscriber(messages: readonly string[], subscribers: readonly string[]): string {
  return `from (
${messages.join(BETWEEN_MESSAGES)}
) as m
join (
${subscribers.join('\nunion ')}
) as s on s.type = cast(m.type as binary)`
}
