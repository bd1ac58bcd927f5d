import { OptionChecker } from '@txbox/core/internal'
import type { RowStore } from '@txbox/core/ports'
import { conflictUnlessAt, foundVersion, versionColumnOf } from '../rules/found-version.ts'
import { assertStepFits, checkedStep } from '../rules/version-step.ts'
import { asKindOf, exactVersion, nextVersion, type Version } from '../version.ts'
import { TableRow } from './table-row.ts'

interface ByVersion {
  readonly where: unknown
  readonly versionColumn?: unknown
}

/** See `Versioning.updateVersioned`. */
export async function updateVersioned(
  rows: RowStore,
  tx: unknown,
  table: string,
  options: ByVersion & { readonly expected: Version; readonly set: unknown },
): Promise<{ version: Version }> {
  const where = 'updateVersioned'
  new OptionChecker(where, options).known('where', 'expected', 'set', 'versionColumn')
  const column = versionColumnOf(where, options)
  const expected = exactVersion(where, 'expected', options.expected)
  const next = nextVersion(where, expected)
  const version = asKindOf(where, options.expected, next)
  const given = new TableRow(where, rows, table, options.where)
  const set = given.checkedSet(options.set, column)
  const row = given.in(await rows.bind(tx))
  await row.assertFits(column, next)
  const condition = { is: 'at', column, version: expected } as const
  let found: string | undefined
  return row.settle<{ version: Version }>({
    async write() {
      const update = await row.update({ set, to: next, condition })
      found = update.found
      return update.written
    },
    // A trigger may have changed the version.
    written: () => ({
      version:
        found === undefined ? version : asKindOf(where, options.expected, foundVersion(row, column, found)),
    }),
    look: () => condition,
    explain: (actual) => conflictUnlessAt(row, where, options.expected, foundVersion(row, column, actual)),
  })
}

/** See `Versioning.deleteVersioned`. */
export async function deleteVersioned(
  rows: RowStore,
  tx: unknown,
  table: string,
  options: ByVersion & { readonly expected: Version },
): Promise<void> {
  const where = 'deleteVersioned'
  new OptionChecker(where, options).known('where', 'expected', 'versionColumn')
  const column = versionColumnOf(where, options)
  const expected = exactVersion(where, 'expected', options.expected)
  const given = new TableRow(where, rows, table, options.where)
  const row = given.in(await rows.bind(tx))
  await row.assertFits(column, expected)
  const condition = { is: 'at', column, version: expected } as const
  await row.settle({
    write: () => row.delete(condition),
    written: true,
    look: () => condition,
    explain: (actual) => conflictUnlessAt(row, where, options.expected, foundVersion(row, column, actual)),
  })
}

/** See `Versioning.applyVersion`. */
export async function applyVersion(
  rows: RowStore,
  tx: unknown,
  table: string,
  options: ByVersion & { readonly from: Version; readonly to: Version; readonly set: unknown },
): Promise<{ status: 'applied' | 'stale'; version: Version }> {
  const where = 'applyVersion'
  new OptionChecker(where, options).known('where', 'from', 'to', 'set', 'versionColumn')
  const column = versionColumnOf(where, options)
  const [from, to] = checkedStep(where, options)
  const given = new TableRow(where, rows, table, options.where)
  const set = given.checkedSet(options.set, column)
  const row = given.in(await rows.bind(tx))
  await row.assertFits(column, from, to)
  const condition = { is: 'at', column, version: from } as const
  let found: string | undefined
  return row.settle<{ status: 'applied' | 'stale'; version: Version }>({
    async write() {
      const update = await row.update({ set, to, condition })
      found = update.found
      return update.written
    },
    written: () => ({
      status: 'applied',
      version: asKindOf(where, options.from, found === undefined ? to : foundVersion(row, column, found)),
    }),
    look: () => condition,
    explain(text) {
      const actual = foundVersion(row, column, text)
      if (actual >= to) return { status: 'stale', version: asKindOf(where, options.from, actual) }
      assertStepFits(row.doing, options, actual)
      return undefined
    },
  })
}
