import type { Session } from '@txbox/core'
import type { DeadChange, SharedTransaction, WaitingChange } from '@txbox/core/ports'
import type { Resolved } from '../../transactions/adapters.ts'
import { connectionIdentity } from '../../transactions/resolver/resolver.ts'
import type { Row, RowReader } from '../row-reader.ts'

export const BUFFERING = 'waiting for a predecessor in the version buffer'

/** See `VersionBufferStore.transactionOf`. */
export async function sharedTransaction(session: Session): Promise<SharedTransaction> {
  const { driver, connection, isOpen } = session as unknown as Resolved
  const monitor = await driver.monitor(connection)
  const snapshot = monitor?.snapshot()
  return {
    connection: monitor?.tracker === undefined ? connectionIdentity({ driver, connection }) : monitor,
    hasEnded: () => !isOpen() || snapshot?.replaced === true,
  }
}

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
    // All databases return milliseconds.
    receivedAt: new Date(read.number(row, 'received_at')),
    deadAt: new Date(read.number(row, 'dead_at')),
  }
}
