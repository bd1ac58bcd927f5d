import { InvalidOptionError, isTxboxError, type Session } from '@txbox/core'
import { OptionChecker, attemptsOnConflict, nameOf, oneLine } from '@txbox/core/internal'
import type { RowRoot, RowStore } from '@txbox/core/ports'
import { EditConflictError } from '../errors.ts'
import { attemptsOf, isVersionConflict } from '../retry-on-conflict.ts'
import { conflictUnlessAt, foundVersion, versionColumnOf } from '../rules/found-version.ts'
import { nextVersion } from '../version.ts'
import { TableRow } from './table-row.ts'

type Values = Readonly<Record<string, unknown>>
type Merge = (row: Values) => unknown

/** A version as a merge gets it: a number, a bigint beyond 2^53, or text if the column is a decimal. */
type MergedVersion = number | bigint | string

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

/** See `Versioning.updateMerged`. */
export async function updateMerged(
  rows: RowStore,
  db: unknown,
  table: string,
  options: {
    readonly where: unknown
    readonly merge: unknown
    readonly attempts?: number | undefined
    readonly versionColumn?: unknown
  },
): Promise<{ version: MergedVersion; attempts: number }> {
  const where = 'updateMerged'
  const check = new OptionChecker(where, options).known('where', 'merge', 'attempts', 'versionColumn')
  const merge = check.callback<Merge>('merge')
  if (merge === undefined) throw check.wrong('merge', 'a function')
  const edit = { where, column: versionColumnOf(where, options), merge }
  const attempts = attemptsOf(check)
  const given = new TableRow(where, rows, table, options.where)
  const { root } = rows
  if (root !== undefined && root.db === db) return mergedByRoot(given, edit, root, attempts)
  const session: Session = await rows.bind(db)
  try {
    return { version: await mergeInto(given.in(session), edit, { locked: true }), attempts: 1 }
  } catch (error) {
    throw unwrapped(error)
  }
}

/** Each attempt is a transaction of its own. */
async function mergedByRoot(
  given: TableRow,
  edit: Edit,
  root: RowRoot,
  attempts: number,
): Promise<{ version: MergedVersion; attempts: number }> {
  let last = 0
  try {
    const version = await attemptsOnConflict(
      (attempt) => {
        last = attempt
        return root.transact((_, session) => mergeInto(given.in(session), edit, { locked: false }))
      },
      { isConflict },
      { attempts },
    )
    return { version, attempts: last }
  } catch (error) {
    if (!isConflict(error)) throw unwrapped(error)
    throw new EditConflictError(
      `${given.doing} was changed by another writer during each of ${attempts} attempts. Nothing was written. Try again later.`,
      { attempts, cause: error },
    )
  }
}

function unwrapped(error: unknown): unknown {
  return error instanceof MergeFailure ? error.error : error
}

function isConflict(error: unknown): boolean {
  return isVersionConflict(error) || (isTxboxError(error) && error.code === 'TXBOX_TRANSACTION_CONFLICT')
}

async function mergeInto(
  row: TableRow,
  { where, column, merge }: Edit,
  options: { readonly locked: boolean },
): Promise<MergedVersion> {
  const found = await row.rows.read(row.session, row, options)
  if (found.length > 1) throw row.ambiguous()
  const [values] = found
  if (values === undefined) throw row.notFound()
  const sample = versionIn(row, column, values)
  const version = BigInt(sample)
  const next = nextVersion(where, version)
  const set = row.checkedSet(await merged(merge, values), column)
  await row.assertFits(column, next)
  const condition = { is: 'at', column, version } as const
  let written: string | undefined
  return row.settle<MergedVersion>({
    async write() {
      const update = await row.update({ set, to: next, condition })
      written = update.found
      return update.written
    },
    // A trigger may have changed the version.
    written: () => asMerged(sample, written === undefined ? next : foundVersion(row, column, written)),
    look: () => condition,
    explain: (text) => conflictUnlessAt(row, where, version, foundVersion(row, column, text)),
  })
}

/** Calls the user's function, whose own statements may be sent in another transaction than this one. */
async function merged(merge: Merge, values: Values): Promise<unknown> {
  try {
    return await merge(values)
  } catch (error) {
    throw new MergeFailure(error)
  }
}

/** @throws {InvalidOptionError} when the row has no such column, or the column contains no version. */
function versionIn(row: TableRow, column: string, values: Values): MergedVersion {
  const version = values[column]
  if (typeof version === 'number' && Number.isSafeInteger(version)) return version
  if (typeof version === 'bigint' || (typeof version === 'string' && /^-?\d+$/.test(version))) return version
  const problem = Object.hasOwn(values, column)
    ? `the column '${oneLine(column)}' holds ${nameOf(version)}, which is not a version; expected a whole number`
    : `the table has no column '${oneLine(column)}', but ${oneLine(Object.keys(values).join(', '), 300)}`
  throw new InvalidOptionError(
    `${row.doing}: ${problem}. Nothing was written. Pass the version column, which is NOT NULL and has an integer type, as ` +
      "'versionColumn'.",
  )
}

function asMerged(sample: MergedVersion, version: bigint): MergedVersion {
  if (typeof sample === 'string') return String(version)
  const number = Number(version)
  return Number.isSafeInteger(number) ? number : version
}
