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
     * Takes back messages that turned out to have been written outside a transaction. The first value is the number of
     * the first of them, the second their ids.
     */
    takeBack: `
delete from ${outbox}
where seq >= ? and id in (?)`,

    /** To the parked messages, until they are due. They have no place in an order. */
    schedule: (rows: readonly string[]) => `
insert into ${parked}
  (shard, id, topic, \`key\`, type, content_type, headers, correlation_id, payload, created_at, deliver_at, due_at)
values ${rows.join(',')}`,

    /** One row of `schedule`; the last values are the instant, twice, in milliseconds. */
    scheduleRow: `(?, ?, ?, ?, ?, ?, ?, ?, ?, utc_timestamp(6), '1970-01-01' + interval ? * 1000 microsecond,
  '1970-01-01' + interval ? * 1000 microsecond)`,

    /** As `takeBack`. */
    takeBackScheduled: `
delete from ${parked}
where place >= ? and id in (?)`,
  } as const
}
