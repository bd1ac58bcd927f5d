import { InvalidOptionError, isTxboxError } from '@txbox/core'
import { OptionChecker, attemptsOnConflict, nameOf } from '@txbox/core/internal'
import type { Kysely } from 'kysely'
import { textResult, type AnyTables } from './dialect.ts'
import { EditConflictError } from '../errors.ts'
import { assertFits } from './column-range.ts'
import { KeyedRow } from './keyed-row.ts'
import { attemptsOf, isVersionConflict } from '../retry-on-conflict.ts'
import type {
  AnyKysely,
  DefaultVersion,
  Named,
  Row,
  RowKey,
  SetOf,
  TableOf,
  VersionColumn,
} from './table-options.ts'
import { translatingConflicts } from './transaction-conflict.ts'
import {
  checkedSet,
  conflictUnlessAt,
  foundVersion,
  isAt,
  versionColumnOf,
  versionText,
} from './version-option.ts'
import { asKindOf, nextVersion, type Version } from '../version.ts'

/**
 * The alias of the exact version among the columns of the row. Plugins that rename columns leave this name unchanged.
 */
const EXACT = 'txboxversion'

/**
 * Reads one row, passes it to `merge`, and writes the result if the row is still at the version that was read.
 *
 * - With a root, each attempt is a new transaction, and no lock is held while `merge` runs. If another writer changed
 *   the row meanwhile, the next attempt reads the row again and calls `merge` again.
 * - In a transaction, the row is read `FOR UPDATE`, so that there is one attempt and no conflict.
 *
 * @returns the new version, with the type that the row's version has, and the number of attempts.
 * @throws {EditConflictError} when another writer changed the row during each attempt. Retryable.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {TransactionConflictError} when the database asks for the caller's transaction to be run again.
 * @throws {InvalidOptionError} when `where` is empty or matches several rows, or when the result of `merge` names the
 *   version column. An error that `merge` throws is rethrown unchanged.
 */
export async function updateMerged<
  DB,
  TB extends TableOf<DB>,
  VC extends VersionColumn<DB, TB> = DefaultVersion<DB, TB>,
>(
  db: AnyKysely<DB>,
  table: TB,
  options: {
    /** Columns of a unique key, with their values. */
    where: RowKey<DB, TB>
    /**
     * Returns the values to write for a row as your Kysely returns it. Must have no other effects: it may be called
     * several times.
     */
    merge: (row: Row<DB, TB>) => SetOf<DB, TB, NoInfer<VC>> | Promise<SetOf<DB, TB, NoInfer<VC>>>
    /** The maximum number of attempts with a root, 1 to 100. @default 3 */
    attempts?: number | undefined
  } & Named<DB, TB, VC>,
): Promise<{ version: Row<DB, TB>[VC]; attempts: number }> {
  const where = 'updateMerged'
  const check = new OptionChecker(where, options).known('where', 'merge', 'attempts', 'versionColumn')
  const merge = check.callback<Merge>('merge')
  if (merge === undefined) throw check.wrong('merge', 'a function')
  const edit = { where, column: versionColumnOf(where, options), merge }
  const attempts = attemptsOf(check)
  const onRow = (tx: object): KeyedRow => new KeyedRow(where, tx, table, options.where)
  const row = onRow(db)
  if (db.isTransaction) {
    const version = await mergeInto(row, edit, { locked: true })
    return { version: version as Row<DB, TB>[VC], attempts: 1 }
  }
  let last = 0
  try {
    const version = await attemptsOnConflict(
      (attempt) => {
        last = attempt
        return inTransaction(row, (tx) => mergeInto(onRow(tx), edit, { locked: false }))
      },
      { isConflict },
      { attempts },
    )
    return { version: version as Row<DB, TB>[VC], attempts: last }
  } catch (error) {
    if (!isConflict(error)) throw unwrapped(error)
    throw new EditConflictError(
      `${row.doing} was changed by another writer during each of ${attempts} attempts. Nothing was written. Try again later.`,
      { attempts, cause: error },
    )
  }
}

type Merge = (row: unknown) => unknown
interface Edit {
  readonly where: string
  readonly column: string
  readonly merge: Merge
}

/** Wraps an error that `merge` threw, so that it is neither retried nor translated. */
class MergeFailure {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

function unwrapped(error: unknown): unknown {
  return error instanceof MergeFailure ? error.error : error
}

function isConflict(error: unknown): boolean {
  return isVersionConflict(error) || (isTxboxError(error) && error.code === 'TXBOX_TRANSACTION_CONFLICT')
}

function inTransaction<R>(row: KeyedRow, work: (tx: Kysely<AnyTables>) => Promise<R>): Promise<R> {
  return translatingConflicts(
    () => row.doing,
    () => row.db.transaction().execute(work),
  )
}

async function mergeInto(row: KeyedRow, edit: Edit, { locked }: { locked: boolean }): Promise<Version> {
  const { where, column } = edit
  const { [EXACT]: exact, ...values } = await row.read(versionText(row, column).as(EXACT), { locked })
  const version = foundVersion(row, column, textResult(exact))
  const next = nextVersion(where, version)
  const kind = kindOf(row, column, values)
  const set = checkedSet(where, await merged(edit, values, locked), column)
  await assertFits(row, column, next)
  const written = asKindOf(where, kind, next)
  let found: string | null | undefined
  return row.settle<Version>({
    async write() {
      const change = { ...set, [column]: row.dialect.version(next) }
      const update = await row.updateVersion(change, column, isAt(row, column, version))
      found = update.found
      return update.written
    },
    // A trigger may have changed the version.
    written: () => (found === undefined ? written : asKindOf(where, kind, foundVersion(row, column, found))),
    look: () => versionText(row, column),
    explain: (found) => conflictUnlessAt(row, where, version, foundVersion(row, column, found)),
  })
}

async function merged({ merge }: Edit, values: unknown, locked: boolean): Promise<unknown> {
  try {
    return await merge(values)
  } catch (error) {
    throw locked ? error : new MergeFailure(error)
  }
}

/** Returns the version as the user's driver returns it, so that the result gets the same type. */
function kindOf(row: KeyedRow, column: string, values: Readonly<Record<string, unknown>>): Version {
  const version = values[column]
  if (typeof version === 'number' || typeof version === 'bigint' || typeof version === 'string')
    return version
  throw new InvalidOptionError(
    `${row.doing}: the driver returns the column '${column}' as ${nameOf(version)}; expected a number, a bigint or a string.`,
  )
}
