import { InvalidMessageError, InvalidOptionError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { ColumnValues, RowStore } from '@txbox/core/ports'
import { foundVersion } from '../rules/found-version.ts'
import { guardOptions, rowText, type GuardOptions } from '../rules/guard-options.ts'
import { exactVersion } from '../version.ts'
import { TableRow } from './table-row.ts'

type Guard = (tx: unknown, message: unknown) => Promise<'apply' | 'stale'>

/** See `Versioning.versionGuard`. */
export function versionGuard(
  rows: RowStore,
  options: object,
): Guard & { readonly rowOf: (message: unknown) => string } {
  const checked = guardOptions(options)
  return Object.assign((tx: unknown, message: unknown) => guard(rows, checked, tx, message), {
    rowOf: (message: unknown) => rowText(checked, message),
  })
}

async function guard(
  rows: RowStore,
  options: GuardOptions,
  tx: unknown,
  message: unknown,
): Promise<'apply' | 'stale'> {
  const { column } = options
  const { given, version, insert } = rowOf(rows, options, message)
  const row = given.in(await rows.bind(tx))
  await row.assertFits(column, version)
  const condition = { is: 'below', column, version } as const
  const change = { set: {}, to: version, condition }
  return row.settle<'apply' | 'stale'>({
    write: async () =>
      insert === undefined
        ? (await row.update(change)).written
        : rows.insertOrUpdate(row.session, row, { ...change, insert }),
    written: 'apply',
    look: () => condition,
    explain: (found) => (foundVersion(row, column, found) >= version ? 'stale' : undefined),
    missing: insert && (async () => undefined),
  })
}

/** @throws {InvalidMessageError} when the message names no row, or no version. */
function rowOf(
  rows: RowStore,
  { table, column, ...of }: GuardOptions,
  message: unknown,
): { given: TableRow; version: bigint; insert: ColumnValues | undefined } {
  const where = of.where(message)
  const version = of.version(message)
  const inserted = of.insert?.(message)
  try {
    const given = new TableRow('versionGuard', rows, table, where)
    const insert = inserted === undefined ? undefined : given.checkedInsert(inserted, column)
    return { given, insert, version: exactVersion(given.doing, oneLine(column), version) }
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error
    throw new InvalidMessageError(`${error.message} Nothing was written.`, { cause: error })
  }
}
