import { DatabaseUnavailableError } from './errors.ts'

/**
 * Ends the wait for an answer of a database. The time limits of drivers begin when the statement is sent: before that, a
 * pool may wait for a connection forever.
 */
export function unanswered(ms: number, asked = 'The database'): never {
  throw new DatabaseUnavailableError(`${asked} has not answered within ${ms} ms.`)
}
