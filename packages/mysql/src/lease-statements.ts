import type { Tables } from './identifiers.ts'

/**
 * Every statement on the table of leases. `?` stands for a value, which is put in as a literal. All times are the
 * database's. Leases come in the order of their names, so that all lock in one order.
 */
export function leaseStatements({ leases }: Tables) {
  return {
    known: `
select hex(name) as name, cast(expires_at is null or expires_at <= utc_timestamp(6) as char) as free
from ${leases}
where name in (?)`,

    /** One row of {@link seed}. */
    seedRow: '(?)',

    /** Names that nobody has used yet. Who gets in between has seeded them. */
    seed: `
insert into ${leases} (name)
values ROWS
on duplicate key update term = ${leases}.term`,

    /**
     * Leases that are free or have expired; never waits for another acquirer. A lease that still has an owner was not given
     * back: its owner has died.
     */
    free: `
select hex(name) as name, cast(term as char) as term, cast(crashes + (owner is not null) as char) as crashes,
  cast(in_flight as binary) as in_flight
from ${leases}
where name in (?) and (expires_at is null or expires_at <= utc_timestamp(6))
order by name
limit ?
for update skip locked`,

    /** The crash is counted before the owner changes: assignments take effect from left to right. */
    take: `
update ${leases}
set crashes = least(crashes, 1000000) + (owner is not null), owner = ?, term = term + 1, expires_at = utc_timestamp(6) + interval ? microsecond
where name in (?)`,

    /** One pair of {@link renew}, {@link held}, {@link release}. */
    heldRow: '(name = ? and term = ?)',

    /** Those that are still held. */
    renew: `
update ${leases}
set expires_at = utc_timestamp(6) + interval ? microsecond
where owner = ? and expires_at > utc_timestamp(6) and (ROWS)`,

    held: `
select hex(name) as name
from ${leases}
where owner = ? and expires_at > utc_timestamp(6) and (ROWS)`,

    release: `
update ${leases}
set owner = null, expires_at = null, in_flight = null
where owner = ? and (ROWS)`,

    /** Releases leases of which some, `CUT`, were cut off. */
    releaseCutOff: `
update ${leases}
set owner = null, expires_at = null, crashes = least(crashes, 1000000) + (CUT), in_flight = case when CUT then in_flight end
where owner = ? and (ROWS)`,

    holders: `
select hex(name) as name, hex(owner) as owner
from ${leases}
where left(name, ?) = ? and expires_at > utc_timestamp(6)
order by name`,

    /** Found by a plain read: a search of a DELETE would lock the leases of others, too. */
    unused: `
select hex(name) as name
from ${leases}
where left(name, ?) = ? and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)`,

    sweep: `
delete from ${leases}
where name in (?) and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)`,
  } as const
}
