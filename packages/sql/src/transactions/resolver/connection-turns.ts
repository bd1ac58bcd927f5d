import { TurnsByObject } from '@txbox/core/internal'
import type { Resolved } from '../adapters.ts'
import { connectionIdentity } from './resolver.ts'

const turns = new TurnsByObject()

/**
 * Runs work that changes a setting of the connection, and changes it back, after all earlier work of this kind on the same
 * connection. Otherwise calls side by side would read each other's setting as the one to restore.
 */
export function inTurnOfConnection<R>(
  session: Pick<Resolved, 'driver' | 'connection'>,
  work: () => Promise<R>,
): Promise<R> {
  return turns.of(connectionIdentity(session)).run(work)
}
