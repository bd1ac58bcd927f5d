import { errorMonitor, type EventEmitter } from 'node:events'
import { MonitoredConnection, type Send } from './connection-monitor.ts'
import { effectOf } from './statement-effect.ts'

/** The part of a `mysql2` connection through which txbox sees its commands. */
export interface WatchedConnection {
  readonly config?: { readonly clientFlags?: number | undefined } | undefined
  /**
   * All commands to the server pass through this method. It is undocumented: txbox works without it if it is missing.
   */
  addCommand?(command: Command): unknown
}

interface Command extends EventEmitter {
  /** The text of a statement. A command that prepares a statement has the text as `query`. */
  readonly sql?: unknown
  readonly query?: unknown
  /** The prepared statement that the command executes. */
  readonly statement?: { readonly query?: unknown } | undefined
  onResult?: ((error: unknown, ...result: unknown[]) => void) | null | undefined
}

/** The flag of a client that may send several statements in one text. */
const MULTI_STATEMENTS = 0x1_0000

const monitors = new WeakMap<WatchedConnection, MonitoredConnection>()

/** The connection whose next command is a statement of txbox. */
let sending: WatchedConnection | undefined

/** @returns `undefined` if the connection cannot be watched. */
export function monitorOf<C extends WatchedConnection>(
  connection: C,
  send: (connection: C, sql: string) => Promise<unknown>,
): MonitoredConnection | undefined {
  return monitors.get(connection) ?? watch(connection, (sql) => send(connection, sql))
}

/** A pool keeps a connection longer than its transactions, so a connection is wrapped only once. */
function watch(connection: WatchedConnection, send: Send): MonitoredConnection | undefined {
  const addCommand = connection.addCommand?.bind(connection)
  if (addCommand === undefined) return undefined
  const monitor = new MonitoredConnection(send)
  monitors.set(connection, monitor)
  const several = ((connection.config?.clientFlags ?? MULTI_STATEMENTS) & MULTI_STATEMENTS) !== 0
  connection.addCommand = (command) => {
    if (sending !== connection) follow(monitor, command, several)
    return addCommand(command)
  }
  return monitor
}

function follow(monitor: MonitoredConnection, command: Command, several: boolean): void {
  // Preparing a statement has no effect: another command executes it.
  const isPreparing = typeof command.query === 'string'
  const text = command.sql ?? command.statement?.query
  const effect = isPreparing ? 'none' : typeof text === 'string' ? effectOf(text, several) : 'unknown'
  let answered = false
  const answer = (error: unknown): void => {
    if (answered) return
    answered = true
    if (error === undefined || error === null) monitor.succeeded(effect)
    else monitor.failed(error, false)
  }
  monitor.sent(effect)
  const { onResult } = command
  if (typeof onResult === 'function') {
    command.onResult = (error, ...result) => {
      answer(error)
      onResult.call(command, error, ...result)
    }
  }
  if (typeof onResult !== 'function' || !('sql' in command) || 'statement' in command) {
    // A result that is read as a stream is reported by events. If a statement could not be prepared, only the end is
    // reported, after the failure.
    command.once(errorMonitor, answer)
    command.once('end', () => answer(undefined))
  }
}

/**
 * Runs `send`, which sends a statement of txbox in this tick. The caller itself reports that statement to the monitor.
 */
export function sendingOwn(connection: WatchedConnection, send: () => void): void {
  sending = connection
  try {
    send()
  } finally {
    sending = undefined
  }
}
