import type { RootAdapter } from './handle-adapter.ts'

/** The share of a timeout after which the server cancels a late statement, so that its answer still reaches the client. */
const SERVER_SHARE = 0.9

/** Looking at the tables takes no locks: nobody should wait longer than this, in ms, for an error. */
export const CHECK_TIMEOUT_MS = 30_000

/** A batch of a garbage collector without an answer after this time, in ms, has lost its connection. */
export const GARBAGE_TIMEOUT_MS = 60_000

/** Where txbox's own statements go, and how long an answer may take. */
export interface Source {
  readonly root: RootAdapter
  readonly db: unknown
  readonly statementTimeoutMs: number
}

/** When the server has to cancel a statement that the client waits `timeoutMs` for, in ms. */
export function cancelAfterMs(timeoutMs: number): number {
  return timeoutMs * SERVER_SHARE
}

/** Thrown on a connection that arrived after the deadline of the work that wanted it. */
export function tooLate(): Error {
  return new Error('Nobody waits for this connection any more.')
}
