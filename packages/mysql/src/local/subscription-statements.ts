/* MySQL and MariaDB insert one row at a time, and report an existing one as an error; PostgreSQL has ON CONFLICT DO NOTHING. */
import type { Tables } from '../connection/identifiers.ts'

/** All statements on the table of subscriptions but those of `publish`. `?` is replaced by a value as a literal. */
export function subscriptionStatements({ subscriptions }: Tables) {
  return {
    /** A plain read: a write of a row that exists would wait for publishers that have read it. */
    known: `
select hex(s.type) as type
from ${subscriptions} as s force index (primary)
where s.type in (?) and s.consumer = ?`,

    /** An existing row is an error: the number of written rows would not tell all drivers apart whether the row is new. */
    add: `
insert into ${subscriptions} (registered_at, type, consumer)
values (utc_timestamp(6), ?, ?)`,

    list: `
select hex(s.type) as type, hex(s.consumer) as consumer,
  cast(timestampdiff(microsecond, '1970-01-01', s.registered_at) as char) as registered_at
from ${subscriptions} as s
order by s.consumer, s.type`,
  } as const
}
