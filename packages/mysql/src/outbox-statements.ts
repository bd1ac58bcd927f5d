/*
 * MySQL and MariaDB insert rows, and may have to delete them again; PostgreSQL takes columns of values as arrays, and
 * can notify.
 */
import type { Tables } from './identifiers.ts'

/** Every statement on the outbox table that a producer runs. `?` stands for a value, which is put in as a literal. */
export function outboxStatements({ outbox, parked }: Tables) {
  return {
    /** One message or many, numbered in the order of the rows. */
    append: (rows: readonly string[]) => `
insert into ${outbox}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, payload, created_at)
values ${rows.join(',')}`,

    /** One row of `append`. */
    appendRow: '(?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6))',

    /**
     * Deletes messages that were written outside a transaction. The values are the number of the first message, and the
     * ids.
     */
    takeBack: `
delete from ${outbox}
where seq >= ? and id in (?)`,

    /** Stores scheduled messages as parked messages until they are due. They have no key order. */
    schedule: (rows: readonly string[]) => `
insert into ${parked}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, payload, created_at, deliver_at, due_at)
values ${rows.join(',')}`,

    /** One row of `schedule`; the last values are the instant, twice, in milliseconds. */
    scheduleRow: `(?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)`,

    /** Like `takeBack`, for scheduled messages. */
    takeBackScheduled: `
delete from ${parked}
where place >= ? and id in (?)`,
  } as const
}
