import type { CheckedSnapshot, ConnectionMonitor, Snapshot } from '../adapters.ts'
import { MonitoredConnection, type Send } from './connection-monitor.ts'

/**
 * Marks the transaction of each handler with a savepoint, for MySQL and MariaDB. The statements of a handler cannot be
 * seen, so any handler may have ended its transaction, or rolled it back to an earlier savepoint.
 */
export class HiddenMonitor implements ConnectionMonitor {
  readonly #marks: MonitoredConnection
  #sent: Promise<unknown> | undefined

  /** @param send sends a statement of txbox in the transaction of the handler. */
  constructor(send: Send) {
    this.#marks = new MonitoredConnection((sql) => (this.#sent = send(sql)))
  }

  snapshot(): Snapshot {
    return this.#marks.snapshot()
  }

  checkedSnapshot(): CheckedSnapshot {
    const snapshot = this.#marks.checkedSnapshot()
    // Assume that the first statement of the handler may have any effect, so that the savepoint is set before it.
    this.#marks.sent('unknown')
    this.#marks.succeeded('unknown')
    return Object.assign(snapshot, { marked: this.#sent })
  }
}
