import type { Database } from '@txbox/core'
import { OptionChecker, portsOf } from '@txbox/core/internal'
import { applyVersion, deleteVersioned, updateVersioned } from './change-by-version.ts'
import { applyIfNewer } from './change-if-newer.ts'
import { transition } from './change-state.ts'
import { updateMerged } from './merge-row.ts'
import { versionGuard } from './table-guard.ts'
import type { UntypedTables } from './table-options.ts'
import type { Versioning } from './versioning.ts'

/**
 * Creates the functions of versioning for rows of your own tables, through the transactions of every library: pg, mysql2,
 * Prisma, Drizzle, TypeORM and the others that `createInbox` takes. Needs no tables of txbox, and no Kysely.
 *
 * `Tables` describes your tables, with the names that the database has: `{ orders: { id: string; version: number } }`. Without
 * it, all names are strings.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createVersioning<Tables extends object = UntypedTables>(options: {
  /** The result of `postgres()` or `mysql()`. A `db` is needed only to pass that root to `updateMerged`. */
  database: Database
}): Versioning<Tables> {
  const where = 'createVersioning'
  new OptionChecker(where, options).known('database')
  const { rows } = portsOf(where, options.database)
  const versioning: Record<keyof Versioning<Tables>, (...call: never[]) => unknown> = {
    updateVersioned: updateVersioned.bind(undefined, rows),
    deleteVersioned: deleteVersioned.bind(undefined, rows),
    applyVersion: applyVersion.bind(undefined, rows),
    applyIfNewer: applyIfNewer.bind(undefined, rows),
    transition: transition.bind(undefined, rows),
    updateMerged: updateMerged.bind(undefined, rows),
    versionGuard: versionGuard.bind(undefined, rows),
  }
  return versioning as unknown as Versioning<Tables>
}
