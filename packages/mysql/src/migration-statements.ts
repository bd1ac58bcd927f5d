import type { Tables } from './identifiers.ts'

/** How long the lock of a cluster is held without being renewed, in seconds. */
const LEASE_S = 30

/** Every statement that `migrate` runs beside the migrations themselves. `?` stands for a value. */
export function migrationStatements({ migrations }: Pick<Tables, 'migrations'>) {
  return {
    /** Galera, and Group Replication in multi-primary mode: several nodes take writes, and a lock is local to its node. */
    cluster: `
show global variables
where variable_name in ('wsrep_on', 'group_replication_single_primary_mode')`,

    database: 'select cast(database() as binary) as name',
    lock: 'select cast(get_lock(?, 0) as char) as locked',
    unlock: 'select cast(release_lock(?) as char) as released',

    /**
     * The lock of a cluster is a row, because the nodes agree on the order of changes of a row: of two callers that take the
     * lock at once, one is rolled back. `title` is the holder; `applied_at` is the time at which the lock expires.
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
