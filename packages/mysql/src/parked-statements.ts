import type { Tables } from './identifiers.ts'
import { messageColumns, verdictsTable } from './relay-statements.ts'

/**
 * Every statement on the table of parked messages that a relay runs. `?` stands for a value, which is put in as a
 * literal.
 */
export function parkedStatements({ parked }: Tables) {
  const columns = `${messageColumns('p', 'place')},
  cast(p.attempts as char) as attempts, cast(p.order_key is not null as char) as ordered`
  return {
    /**
     * What is due, longest first, and who comes first in its key: if that is another, it was due before that one was put
     * back. In the order of the whole index, or the optimizer would sort all of the key.
     */
    due: `
select cast(p.place as char) as place, p.order_key as order_key, cast(p.attempts as char) as attempts,
  (
    select cast(f.place as char) from ${parked} as f force index (parked_order)
    where f.shard = ? and f.order_key = p.order_key
    order by f.shard, f.order_key, f.place
    limit 1
  ) as first
from ${parked} as p force index (parked_due)
where p.shard = ? and p.due_at <= utc_timestamp(6)
order by p.due_at
limit ?`,

    /** It waits behind its predecessor, like the others. */
    follow: `
update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = null
where p.dead_at is null`,

    /** Single messages. */
    readAlone: `
select ${columns}, null as later
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place`,

    /**
     * Messages of a key that goes on, from a place. Where one of them has to wait longer, because it was refused before,
     * \`later\` says so. A branch for each key.
     */
    readOnward: `
(select ${columns}, case when p.due_at > utc_timestamp(6) then 1 end as later
from ${parked} as p force index (parked_order)
where p.shard = ? and p.order_key = ? and p.place >= ?
order by p.place
limit ?)`,

    /** A payload that was only measured. One at a time: a row must fit into a packet. */
    readPayload: `
select p.payload as payload
from ${parked} as p
where p.place = ?`,

    /** What was accepted. */
    remove: `
delete p
from json_table(?, '$[*]' columns (place bigint unsigned path '$')) as gone
straight_join ${parked} as p force index (primary) on p.place = gone.place
where p.dead_at is null`,

    /** What was refused. */
    keep: `
update ${verdictsTable('place')}
straight_join ${parked} as p force index (primary) on p.place = v.place
set p.attempts = v.attempts,
  p.error = v.error,
  p.due_at = utc_timestamp(6) + interval v.retry_us microsecond,
  p.dead_at = case when v.dead then utc_timestamp(6) end,
  p.order_key = case when not v.dead then p.order_key end
where p.dead_at is null`,

    /** Who comes next in a key, after the last place of it that is through. A branch for each key. */
    next: `
(select cast(p.place as char) as place, p.due_at is null as waits
from ${parked} as p force index (parked_order)
where p.shard = ? and p.order_key = ? and p.place > ?
order by p.place
limit 1)`,

    release: `
update json_table(?, '$[*]' columns (place bigint unsigned path '$')) as j
straight_join ${parked} as p force index (primary) on p.place = j.place
set p.due_at = utc_timestamp(6)
where p.due_at is null and p.dead_at is null`,
  } as const
}
