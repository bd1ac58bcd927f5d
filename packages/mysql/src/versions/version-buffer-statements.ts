/*
 * MySQL and MariaDB report an existing key as an error, and return only counts; PostgreSQL has ON CONFLICT DO NOTHING
 * and RETURNING.
 */
import type { Tables } from '../connection/identifiers.ts'

const CHANGE =
  'cast(w.from_version as char) as from_version, cast(w.to_version as char) as to_version, cast(w.kind as binary) as kind, w.payload'

/** Milliseconds since 1970 as text, so that neither a time zone nor an option of the driver changes the value. */
function instant(column: string): string {
  return `cast(floor(timestampdiff(microsecond, '1970-01-01', w.${column}) / 1000) as char) as ${column}`
}

/**
 * All statements on the tables of the version buffer. `?` is replaced by a value as a literal. Reads of waiting
 * messages take locks: at REPEATABLE READ, a plain read would not see messages that were stored after the snapshot.
 */
export function versionBufferStatements({ versions, waiting }: Tables) {
  const next = (order: 'asc' | 'desc'): string => `
select ${CHANGE}
from ${waiting} as w
where w.consumer = ? and w.\`key\` = ? and w.dead_at is null
order by w.from_version${order === 'desc' ? ' desc' : ''}
limit ?
for update`
  const remove = (state: string): string => `
delete from ${waiting}
where consumer = ? and \`key\` = ? and from_version in (?) and ${state}`
  return {
    /** Locks an existing chain, or creates it: for a new chain, a locking read alone would leave a gap lock. */
    beginChain: `
insert into ${versions} (consumer, \`key\`, version)
values (?, ?, ?)
on duplicate key update version = ${versions}.version`,

    position: `
select cast(v.version as char) as version, cast(v.waiting as char) as waiting
from ${versions} as v
where v.consumer = ? and v.\`key\` = ?
for update`,

    move: `
update ${versions}
set version = ?, waiting = greatest(cast(waiting as signed) + ?, 0)
where consumer = ? and \`key\` = ? and version = ?`,

    store: `
insert into ${waiting} (consumer, \`key\`, from_version, to_version, kind, payload, received_at)
values (?, ?, ?, ?, ?, ?, utc_timestamp(6))`,

    read: `
select cast(w.to_version as char) as to_version, cast(w.dead_at is not null as char) as dead
from ${waiting} as w
where w.consumer = ? and w.\`key\` = ? and w.from_version = ?
lock in share mode`,

    first: next('asc'),
    last: next('desc'),

    overdue: `
select ${CHANGE}
from ${waiting} as w
where w.consumer = ? and w.\`key\` = ? and w.dead_at is null
  and w.received_at <= utc_timestamp(6) - interval ? microsecond
order by w.from_version
for update`,

    bury: `
update ${waiting}
set dead_at = utc_timestamp(6), reason = ?
where consumer = ? and \`key\` = ? and from_version in (?) and dead_at is null`,

    removeWaiting: remove('dead_at is null'),
    removeDead: remove('dead_at is not null'),

    overdueKeys: `
select distinct hex(w.\`key\`) as \`key\`
from ${waiting} as w
where w.consumer = ? and w.dead_at is null and w.received_at <= utc_timestamp(6) - interval ? microsecond
limit ?`,

    /** Lists dead letters of version buffers. The second and the third value are the same key; null means any key. */
    dead: `
select hex(w.\`key\`) as \`key\`, ${CHANGE}, cast(w.reason as binary) as reason, ${instant('received_at')}, ${instant('dead_at')}
from ${waiting} as w
where w.consumer = ? and w.dead_at is not null and (? is null or w.\`key\` = ?)
  and (w.\`key\` > ? or (w.\`key\` = ? and w.from_version > ?))
order by w.\`key\`, w.from_version
limit ?`,
  } as const
}
