/*
 * MySQL and MariaDB have no arrays, so each lease needs a condition of its own. They have no UPDATE that returns rows,
 * so acquiring takes two statements.
 */
import type { Tables } from '../connection/identifiers.ts'

/**
 * All statements on the table of leases. `?` is replaced by a value as a literal. All times are by the database's
 * clock. Leases are in the order of their names, so that all statements lock in the same order.
 */
export function leaseStatements({ leases }: Tables) {
  return {
    known: `
select hex(name) as name, cast(expires_at is null or expires_at <= utc_timestamp(6) as char) as free
from ${leases}
where name in (?)`,

    seedRow: '(?)',

    /**
     * Adds names that have never been leased. If the statement fails because of another relay, that relay has added the
     * names.
     */
    seed: (rows: readonly string[]) => `
insert into ${leases} (name)
values ${rows.join(',')}
on duplicate key update term = ${leases}.term`,

    /**
     * Finds and locks leases that are free or have expired. Never waits for another relay that acquires leases. An
     * expired lease that still has an owner was not released: the owner has crashed.
     */
    free: `
select hex(name) as name, cast(term as char) as term, cast(crashes + (owner is not null) as char) as crashes,
  cast(in_flight as binary) as in_flight
from ${leases}
where name in (?) and (expires_at is null or expires_at <= utc_timestamp(6))
order by name
limit ?
for update skip locked`,

    /** Takes leases. The crash is counted before the owner changes: assignments take effect from left to right. */
    take: `
update ${leases}
set crashes = least(crashes, 1000000) + (owner is not null), owner = ?, term = term + 1, expires_at = utc_timestamp(6) + interval ? microsecond
where name in (?)`,

    /** The condition on one lease in `renew`, `held` and `release`. */
    heldRow: '(name = ? and term = ?)',

    renew: (rows: readonly string[]) => `
update ${leases}
set expires_at = utc_timestamp(6) + interval ? microsecond
where owner = ? and expires_at > utc_timestamp(6) and (${rows.join(' or ')})`,

    held: (rows: readonly string[]) => `
select hex(name) as name
from ${leases}
where owner = ? and expires_at > utc_timestamp(6) and (${rows.join(' or ')})`,

    release: (rows: readonly string[]) => `
update ${leases}
set owner = null, expires_at = null, in_flight = null
where owner = ? and (${rows.join(' or ')})`,

    /** Releases leases. The work of the leases in `cut` was cut off. */
    releaseCutOff: (rows: readonly string[], cut: readonly string[]) => `
update ${leases}
set owner = null, expires_at = null, crashes = least(crashes, 1000000) + (${cut.join(' or ')}), in_flight = case when ${cut.join(' or ')} then in_flight end
where owner = ? and (${rows.join(' or ')})`,

    holders: `
select hex(name) as name, hex(owner) as owner
from ${leases}
where left(name, ?) = ? and expires_at > utc_timestamp(6)
order by name`,

    /** Finds unused leases by a plain read: the search of a DELETE would also lock other leases. */
    unused: `
select hex(name) as name
from ${leases}
where left(name, ?) = ? and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)`,

    sweep: `
delete from ${leases}
where name in (?) and (owner is null or expires_at < utc_timestamp(6) - interval ? microsecond)`,
  } as const
}
