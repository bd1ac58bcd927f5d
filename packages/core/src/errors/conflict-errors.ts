import { propertyOf } from './property-of.ts'
import { reasonOf } from './reason-of.ts'

/*
 * The errors by which a database asks for the transaction to be run again: one list for txbox's own tables, and for the
 * user's tables that versioning writes through Kysely.
 */

/** PostgreSQL: serialization failure, deadlock, lock not available. */
const SQLSTATES: ReadonlySet<unknown> = new Set(['40001', '40P01', '55P03'])

/** Prisma: a write conflict or a deadlock, on any database, in an operation on a model. */
const PRISMA_CONFLICT = 'P2034'

/** Group Replication: at COMMIT the certification found a conflict with a transaction on another node. */
const ROLLED_BACK_BY_GROUP = 3101

/**
 * MySQL and MariaDB: deadlock; lock wait timeout; lock not available (NOWAIT); row changed since the snapshot (MariaDB);
 * rolled back by the group's certification.
 */
const NUMBERS: ReadonlySet<unknown> = new Set([1213, 1205, 3572, 1020, ROLLED_BACK_BY_GROUP])

/**
 * An error during COMMIT. Error 149 in its text is a deadlock: Group Replication uses it when another node was first. Any
 * other number comes from the cluster or the disk: Galera uses it when it has lost the connection to its primary component.
 */
const ERROR_DURING_COMMIT = 1180
const DEADLOCK_DURING_COMMIT = /\berror 149\b/i

/** Is this error, regardless of its causes, a conflict that PostgreSQL reports? Prisma keeps the code as `originalCode`. */
export function isPostgresConflict(error: unknown): boolean {
  const code = propertyOf(error, 'code')
  return SQLSTATES.has(code) || code === PRISMA_CONFLICT || SQLSTATES.has(propertyOf(error, 'originalCode'))
}

/** Is this error, regardless of its causes, a conflict that MySQL or MariaDB reports? */
export function isMysqlConflict(error: unknown): boolean {
  return (
    NUMBERS.has(propertyOf(error, 'errno')) ||
    propertyOf(error, 'code') === PRISMA_CONFLICT ||
    NUMBERS.has(Number(propertyOf(error, 'originalCode'))) ||
    isDeadlockDuringCommit(error)
  )
}

/** Is this a conflict with another node of a cluster, which lasts until that node's change arrives? */
export function isClusterConflict(error: unknown): boolean {
  return propertyOf(error, 'errno') === ROLLED_BACK_BY_GROUP || isDeadlockDuringCommit(error)
}

function isDeadlockDuringCommit(error: unknown): boolean {
  return propertyOf(error, 'errno') === ERROR_DURING_COMMIT && DEADLOCK_DURING_COMMIT.test(reasonOf(error))
}
