import type { RootAdapter } from './root-adapter.ts'

/**
 * The share of a timeout after which the server cancels a late statement, so that its answer still reaches the client.
 */
const SERVER_SHARE = 0.9

/** The timeout of checks of the tables, which take no locks. */
export const CHECK_TIMEOUT_MS = 30_000

/** The timeout of a batch of a garbage collector; a later answer means that the connection is lost. */
export const GARBAGE_TIMEOUT_MS = 60_000

export interface StatementRoot {
  readonly root: RootAdapter
  readonly db: unknown
  readonly statementTimeoutMs: number
}

export function cancelAfterMs(timeoutMs: number): number {
  return timeoutMs * SERVER_SHARE
}

export function tooLate(): Error {
  return new Error('The connection arrived after the deadline.')
}
