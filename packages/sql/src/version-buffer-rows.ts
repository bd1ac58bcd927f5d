import type { DeadChange, WaitingChange } from '@txbox/core'
import type { DatabaseErrors } from './database-errors.ts'
import type { Resolver } from './resolver.ts'
import type { Row, RowReader } from './row-reader.ts'

export const BUFFERING = 'waiting for a predecessor in the version buffer'

export function waitingChange(read: RowReader, row: Row): WaitingChange {
  return {
    from: read.bigint(row, 'from_version'),
    to: read.bigint(row, 'to_version'),
    kind: read.text(row, 'kind'),
    payload: read.text(row, 'payload'),
  }
}

export function deadChange(read: RowReader, row: Row): DeadChange {
  return {
    ...waitingChange(read, row),
    key: read.key(row, 'key'),
    reason: read.text(row, 'reason'),
    // Milliseconds on every database.
    receivedAt: new Date(read.number(row, 'received_at')),
    deadAt: new Date(read.number(row, 'dead_at')),
  }
}

/** Returns the object that represents the connection of a transaction. See `VersionBufferStore.connectionOf`. */
export async function connectionOf(
  handle: unknown,
  resolver: Resolver,
  errors: DatabaseErrors,
): Promise<object> {
  try {
    const { driver, connection } = await resolver.transaction(handle)
    const monitor = await driver.monitor(connection)
    // A connection that its library hides has one monitor; a pg client is the connection itself.
    return monitor?.tracker === undefined ? (connection as object) : monitor
  } catch (error) {
    throw errors.translate(error, BUFFERING)
  }
}
