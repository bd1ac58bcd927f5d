import type { IsolationLevel } from './database.ts'
import { OptionChecker } from './options.ts'

const ISOLATIONS: readonly unknown[] = [
  'read committed',
  'repeatable read',
  'serializable',
] satisfies IsolationLevel[]

/** The options of a database's `transact`. */
export interface TransactOptions {
  /** The isolation level of the transaction. @default the server's default */
  isolation?: IsolationLevel | undefined
  /** If the signal is aborted before the transaction is open, `work` is not called. */
  signal?: AbortSignal | undefined
}

/**
 * Checks the options of `transact`, the same way for every database.
 *
 * @throws {InvalidOptionError} for an unknown option, an unknown isolation level, or a `signal` that is not an
 *   AbortSignal.
 */
export function transactOptions(options: TransactOptions): TransactOptions {
  const check = new OptionChecker('transact', options).known('isolation', 'signal')
  const { isolation } = options
  if (isolation !== undefined && !ISOLATIONS.includes(isolation)) {
    throw check.wrong('isolation', ISOLATIONS.map((level) => `'${String(level)}'`).join(' or '))
  }
  return { isolation, signal: check.signal('signal') }
}
