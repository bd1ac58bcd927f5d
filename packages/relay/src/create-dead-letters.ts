import type { ConnectedDatabase, DeadLetters } from '@txbox/core'
import { OptionChecker, connectedPortsOf, deadLettersOf } from '@txbox/core/internal'

/**
 * Gives access to the dead letters of an outbox and of the local consumers: messages whose last attempt failed, or that were
 * rejected permanently. No relay and no consumer needs to run.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option, or a database without a `db`.
 */
export function createDeadLetters(options: {
  /** The result of `postgres({ db })` or `mysql({ db })`. */
  // oxlint-disable-next-line typescript/no-explicit-any -- opens no transactions of the user's type
  database: ConnectedDatabase<any>
  /** The operator, for the record of redrives; 1 to 200 characters. @default the names of the user and the host */
  by?: string | undefined
}): DeadLetters {
  const check = new OptionChecker('createDeadLetters', options).known('database', 'by')
  const by = (options.by ?? undefined) === undefined ? undefined : check.text('by', { max: 200 })
  return deadLettersOf(connectedPortsOf('createDeadLetters', options.database), { by })
}
