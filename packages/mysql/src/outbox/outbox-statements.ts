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
export function outboxStatements({ outbox, parked, keyLocks }: Tables) {
  const append = (rows: readonly string[]): string => `
insert into ${outbox}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, payload, created_at)
values ${rows.join(',')}`
  return {
    /** Inserts one or more messages, numbered in the order of the rows. */
    append,

    /** Like `append`; the first row of the call is `appendLockedRow`. */
    appendLocked: append,

    appendRow: '(?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))',

    /**
     * A row of `append` that first locks the rows of its keys until the transaction ends. The server evaluates the
     * values of the first row before it draws the first number of the statement. The subquery reads the primary key, so
     * that all calls lock in the same order; without FORCE INDEX it may read and lock the whole table. The values are
     * the number of locks, the shard, the locks, and the other columns.
     *
     * If rows are missing, EXP overflows, which is an error in every SQL mode: a missing row would lock nothing.
     */
    appendLockedRow: `((select if(count(*) = ?, ?, exp(1000 + count(*))) from ${keyLocks} force index (primary) where number in (?) for update),
  ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))`,

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
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, payload, created_at, deliver_at, due_at)
values ${rows.join(',')}`,

    /** One row of `schedule`; the last two values are both the instant, in milliseconds. */
    scheduleRow: `(?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)`,

    takeBackScheduled: `
delete from ${parked}
where place >= ? and id in (?)`,
  } as const
}
