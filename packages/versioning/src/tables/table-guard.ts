import { InvalidMessageError, InvalidOptionError } from '@txbox/core'
import { OptionChecker, oneLine } from '@txbox/core/internal'
import type { ColumnValues, RowStore } from '@txbox/core/ports'
import { foundVersion, versionColumnOf } from '../rules/found-version.ts'
import { exactVersion } from '../version.ts'
import { TableRow } from './table-row.ts'

type OfMessage = (message: unknown) => unknown

interface GuardOptions {
  readonly table: string
  readonly column: string
  readonly where: OfMessage
  readonly version: OfMessage
  readonly insert: OfMessage | undefined
}

/** See `Versioning.versionGuard`. */
export function versionGuard(
  rows: RowStore,
  options: object,
): (tx: unknown, message: unknown) => Promise<'apply' | 'stale'> {
  const check = new OptionChecker('versionGuard', options)
  check.known('table', 'where', 'version', 'versionColumn', 'insert')
  const checked = {
    table: check.text('table', { max: 255 }),
    column: versionColumnOf('versionGuard', options),
    where: required(check, 'where'),
    version: required(check, 'version'),
    insert: check.callback<OfMessage>('insert'),
  }
  return (tx, message) => guard(rows, checked, tx, message)
}

function required(check: OptionChecker, name: string): OfMessage {
  const callback = check.callback<OfMessage>(name)
  if (callback === undefined) throw check.wrong(name, 'a function of the message')
  return callback
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
