import type { Resolved } from '../adapters.ts'
import { connectionIdentity } from './resolver.ts'

/** For each connection, the last work that a later one waits for. */
const last = new WeakMap<object, Promise<unknown>>()

/**
 * Runs work that changes a setting of the connection, and changes it back, after all earlier work of this kind on the same
 * connection. Otherwise calls side by side would read each other's setting as the one to restore.
 */
export function inTurnOfConnection<R>(
  session: Pick<Resolved, 'driver' | 'connection'>,
  work: () => Promise<R>,
): Promise<R> {
  const connection = connectionIdentity(session)
  const result = (last.get(connection) ?? Promise.resolve()).then(work)
  last.set(
    connection,
    result.catch(() => undefined),
  )
  return result
}
