import { InvalidOptionError, OptionChecker, isTxboxError, nameOf } from '@txbox/core'
import type { Kysely } from 'kysely'
import { cameBackAs, type AnyTables } from './dialect.ts'
import { EditConflictError } from './errors.ts'
import { KeyedRow } from './keyed-row.ts'
import { attemptsOf, attemptsOnConflict, isVersionConflict } from './retry-on-conflict.ts'
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
import { asKindOf, type Version } from './version.ts'

/** Stands beside the columns of the row; plugins that rename columns leave it as it is. */
const EXACT = 'txboxversion'

/**
 * Reads one row, lets `merge` say what to write, and writes it if the row is still at the version that was read.
 * `merge` is called anew, with the row as it is then, at each attempt.
 *
 * - With a root, each attempt is a transaction of its own, and nobody is kept waiting while `merge` works. When
 *   somebody else was faster, it starts anew.
 * - In a transaction, the row is read `FOR UPDATE`, so that there is one attempt and no conflict.
 *
 * @returns the new version, of the kind that the row has it, and the number of attempts.
 * @throws {EditConflictError} when somebody else was faster at each attempt. Retryable.
 * @throws {RowNotFoundError} when there is no such row.
 * @throws {TransactionConflictError} in a transaction that the database asks to be run again.
 * @throws {InvalidOptionError} for an empty `where` or one that matches several rows, or a result of `merge` with the
 *   version column. What `merge` throws comes out untouched.
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
    /** The row as your Kysely gives it → what to write. No effects besides: it may be called several times. */
    merge: (row: Row<DB, TB>) => SetOf<DB, TB, NoInfer<VC>> | Promise<SetOf<DB, TB, NoInfer<VC>>>
    /** How often it is tried with a root, 1 to 100. @default 3 */
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
      { attempts, isConflict },
    )
    return { version: version as Row<DB, TB>[VC], attempts: last }
  } catch (error) {
    if (!isConflict(error)) throw thrownBy(error)
    throw new EditConflictError(
      `${row.doing} was changed by somebody else during each of ${attempts} attempts. Nothing was written. Try again later.`,
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

/** What `merge` threw, on its way past those who retry and translate. */
class Thrown {
  readonly error: unknown
  constructor(error: unknown) {
    this.error = error
  }
}

function thrownBy(error: unknown): unknown {
  return error instanceof Thrown ? error.error : error
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
  const version = foundVersion(row, column, cameBackAs(exact))
  const kind = kindOf(row, column, values)
  const set = checkedSet(where, await merged(edit, values, locked), column)
  return row.settle<Version>({
    write: () =>
      row.update({ ...set, [column]: row.dialect.version(version + 1n) }, isAt(row, column, version)),
    written: asKindOf(where, kind, version + 1n),
    look: () => versionText(row, column),
    explain: (found) => conflictUnlessAt(row, where, version, foundVersion(row, column, found)),
  })
}

async function merged({ merge }: Edit, values: unknown, locked: boolean): Promise<unknown> {
  try {
    return await merge(values)
  } catch (error) {
    throw locked ? error : new Thrown(error)
  }
}

/** The version as the user's driver gives it: the kind that he works with. */
function kindOf(row: KeyedRow, column: string, values: Readonly<Record<string, unknown>>): Version {
  const version = values[column]
  if (typeof version === 'number' || typeof version === 'bigint' || typeof version === 'string')
    return version
  throw new InvalidOptionError(
    `${row.doing}: the driver gives column '${column}' as ${nameOf(version)}. Expected a number, a bigint or text.`,
  )
}
