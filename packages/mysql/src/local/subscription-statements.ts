/* MySQL and MariaDB insert rows as VALUES, and compare types as bytes; PostgreSQL takes arrays. */
import type { Tables } from '../connection/identifiers.ts'

/** All statements on the table of subscriptions but those of `publish`. `?` is replaced by a value as a literal. */
export function subscriptionStatements({ subscriptions }: Tables) {
  return {
    /** A plain read: a write of a row that exists would wait for publishers that have read it. */
    known: `
select hex(s.type) as type
from ${subscriptions} as s force index (primary)
where s.type in (?) and s.consumer = ?`,

    /** Adds rows that were missing. If another process has added one meanwhile, nothing changes. */
    add: (rows: readonly string[]) => `
insert into ${subscriptions} (registered_at, type, consumer)
values ${rows.join(',')}
on duplicate key update registered_at = ${subscriptions}.registered_at`,

    addRow: '(utc_timestamp(6), ?, ?)',

    list: `
select hex(s.type) as type, hex(s.consumer) as consumer,
  cast(timestampdiff(microsecond, '1970-01-01', s.registered_at) as char) as registered_at
from ${subscriptions} as s
order by s.consumer, s.type`,
  } as const
}
