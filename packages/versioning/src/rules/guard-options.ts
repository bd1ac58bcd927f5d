import { OptionChecker } from '@txbox/core/internal'
import { versionColumnOf } from './found-version.ts'

/** The options of `versionGuard`, for messages of any type. */
export interface GuardOptions {
  readonly table: string
  readonly column: string
  readonly where: (message: unknown) => unknown
  readonly version: (message: unknown) => unknown
  readonly insert: ((message: unknown) => object) | undefined
}

/** Names the row of a message: the same text for the same key, whatever the order of its columns and the types of its values. */
export function rowText({ where }: Pick<GuardOptions, 'where'>, message: unknown): string {
  try {
    const columns = Object.entries(where(message) as object).map(([name, value]) => [name, textOf(value)])
    return JSON.stringify(columns.toSorted(([one], [other]) => (one! < other! ? -1 : 1)))
  } catch {
    // The guard itself refuses a message that names no row.
    return ''
  }
}

function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString()
  return value instanceof Uint8Array ? Buffer.from(value).toString('hex') : String(value)
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function guardOptions(options: object): GuardOptions {
  const check = new OptionChecker('versionGuard', options)
  check.known('table', 'where', 'version', 'versionColumn', 'insert')
  return {
    table: check.text('table', { max: 255 }),
    column: versionColumnOf('versionGuard', options),
    where: required(check, 'where'),
    version: required(check, 'version'),
    insert: check.callback('insert'),
  }
}

function required(check: OptionChecker, name: string): (message: unknown) => unknown {
  const callback = check.callback<(message: unknown) => unknown>(name)
  if (callback === undefined) throw check.wrong(name, 'a function of the message')
  return callback
}
