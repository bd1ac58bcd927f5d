import { readOnlyPart } from '@txbox/core/internal'

/**
 * Returns whether a connection must be replaced after this error although it still works. After a failover, the connections
 * of a pool may still lead to the former primary, which accepts no writes; a new connection leads to the server to which the
 * address leads now.
 */
export function isStale(error: unknown): boolean {
  return readOnlyPart(error) !== undefined
}
