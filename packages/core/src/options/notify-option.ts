import { InvalidOptionError } from '../errors/errors.ts'
import type { OptionChecker } from './options.ts'

/**
 * Checks the option `notify` of a feature that stores messages in a database.
 *
 * @throws {InvalidOptionError} for another value than true, false or 'auto', and for true if the database cannot notify.
 */
export function notifyOption(
  check: OptionChecker,
  options: { readonly notify?: unknown; readonly database: { readonly engine: string } },
): boolean | 'auto' {
  const { notify } = options
  const canNotify = options.database.engine === 'postgres'
  if (notify === undefined || notify === 'auto') return canNotify ? 'auto' : false
  if (typeof notify !== 'boolean') throw check.wrong('notify', "true, false or 'auto'")
  if (!notify || canNotify) return notify
  throw new InvalidOptionError(
    `${check.where}: notify: true requires PostgreSQL; on other databases, messages are found by polling. Remove the option.`,
  )
}
