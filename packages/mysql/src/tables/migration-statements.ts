/*
 * MySQL and MariaDB commit at every DDL statement. They may be a cluster, whose nodes share no lock except a row. One
 * query reads both the revision and the traits of the server. PostgreSQL uses one transaction and one lock.
 */
import type { Tables } from '../connection/identifiers.ts'
import { SETTINGS } from '../connection/session-statements.ts'
import { withoutRowLimitAnywhere } from '../connection/time-limit-statements.ts'

/** How long the lock of a cluster is valid without a renewal, in seconds. */
const LEASE_S = 30

/**
 * All statements that `migrate` and the check of the revision run in addition to the migrations themselves. `?` is
 * replaced by a value as a literal.
 */
export function migrationStatements({ migrations }: Pick<Tables, 'migrations'>) {
  // MariaDB returns a switch as ON, unless it is converted to a number: then both engines return 1.
  const traits = withoutRowLimitAnywhere(`
select cast(version() as char) as version, cast(@@max_allowed_packet as char) as packet,
  cast(@@autocommit + 0 as char) as autocommit, cast(m.number as char) as number,
  ${SETTINGS}
from (select 1 as one) as o left join ${migrations} as m on true`)
  return {
    version: `select cast(version() as char) as version, ${SETTINGS}`,

    /** The traits of the server, the settings of the session, and the numbers of the applied migrations. */
    traits,

    /**
     * Like `traits`, for a caller's transaction, in which a plain read would create a snapshot earlier than the caller
     * wants.
     */
    traitsWithoutSnapshot: `${traits}
lock in share mode`,

    commit: 'commit',
    rollback: 'rollback',

    /**
     * Galera, or Group Replication in multi-primary mode: several nodes accept writes, and a lock is local to its node.
     */
    cluster: `
show global variables
where variable_name in ('wsrep_on', 'group_replication_single_primary_mode')`,

    database: 'select cast(database() as binary) as name',
    lock: 'select cast(get_lock(?, 0) as char) as locked',
    unlock: 'select cast(release_lock(?) as char) as released',

    /**
     * The lock of a cluster is a row, because the nodes agree on the order of changes of a row: if two callers take the
     * lock at once, one of them is rolled back. `title` is the holder; `applied_at` is the time at which the lock
     * expires.
     */
    take: `
insert into ${migrations} (number, title, applied_at)
values (0, ?, utc_timestamp(6) + interval ${LEASE_S} second)
on duplicate key update
  title = if(applied_at < utc_timestamp(6), ?, title),
  applied_at = if(title = ?, utc_timestamp(6) + interval ${LEASE_S} second, applied_at)`,

    holder: `
select cast(title as binary) as holder
from ${migrations}
where number = 0`,

    renew: `
update ${migrations}
set applied_at = utc_timestamp(6) + interval ${LEASE_S} second
where number = 0 and title = ?`,

    release: `
delete from ${migrations}
where number = 0 and title = ?`,
  } as const
}
