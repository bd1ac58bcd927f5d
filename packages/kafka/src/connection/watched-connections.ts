import type { ConnectionPool } from '@platformatic/kafka'

/**
 * Keeps the connections of a pool from ending the process, or from keeping it alive. A connection of the client that breaks during its
 * login emits a second error when nobody listens to it any more. A connection that is closed by the broker keeps its timer for the next
 * login until it is closed here, too.
 */
export function watchConnections(pool: ConnectionPool): void {
  pool.on('connecting', ({ connection }) => connection.on('error', () => undefined))
  pool.on('disconnect', ({ connection }) => void connection.close())
}

/** Ends the connections at once: closing alone would first send what is in the buffers of their sockets. */
export function breakConnections(pool: ConnectionPool): void {
  for (const [, { socket }] of pool) socket?.destroy()
}
