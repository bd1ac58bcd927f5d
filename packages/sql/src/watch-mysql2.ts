import { errorMonitor, type EventEmitter } from 'node:events'
import { SeenConnection, effectOf, type Send } from './seen-connection.ts'

/** What we use of a `mysql2` connection to see what goes through it. */
export interface WatchedConnection {
  readonly config?: { readonly clientFlags?: number | undefined } | undefined
  /** All that goes to the server goes through it. Undocumented: one that is not there is done without. */
  addCommand?(command: Command): unknown
}

interface Command extends EventEmitter {
  /** Of a statement; a prepared one has it as `query` when it is prepared. */
  readonly sql?: unknown
  readonly query?: unknown
  /** The prepared one that is executed. */
  readonly statement?: { readonly query?: unknown } | undefined
  onResult?: ((error: unknown, ...result: unknown[]) => void) | null | undefined
}

/** The client lets several statements travel in one text. */
const MULTI_STATEMENTS = 0x1_0000

const seen = new WeakMap<WatchedConnection, SeenConnection>()

/** The connection whose next command is a statement of a session of ours. */
let sending: WatchedConnection | undefined

/** → `undefined` for one that cannot be watched. */
export function seenOn(connection: WatchedConnection, send: Send): SeenConnection | undefined {
  return seen.get(connection) ?? watch(connection, send)
}

/** A connection outlives its transactions in the pool; it is wrapped once. */
function watch(connection: WatchedConnection, send: Send): SeenConnection | undefined {
  const addCommand = connection.addCommand?.bind(connection)
  if (addCommand === undefined) return undefined
  const watched = new SeenConnection(send)
  seen.set(connection, watched)
  const several = ((connection.config?.clientFlags ?? MULTI_STATEMENTS) & MULTI_STATEMENTS) !== 0
  connection.addCommand = (command) => {
    if (sending !== connection) follow(watched, command, several)
    return addCommand(command)
  }
  return watched
}

function follow(watched: SeenConnection, command: Command, several: boolean): void {
  // To prepare a statement has no effect: it comes again, to be executed.
  const isHarmless = typeof command.query === 'string'
  const text = command.sql ?? command.statement?.query
  const effect = isHarmless ? 'none' : typeof text === 'string' ? effectOf(text, several) : 'unknown'
  let answered = false
  const answer = (error: unknown): void => {
    if (answered) return
    answered = true
    if (error === undefined || error === null) watched.succeeded(effect)
    else watched.failed(error, false)
  }
  watched.sent(effect)
  const { onResult } = command
  if (typeof onResult === 'function') {
    command.onResult = (error, ...result) => {
      answer(error)
      onResult.call(command, error, ...result)
    }
  }
  if (typeof onResult !== 'function' || !('sql' in command) || 'statement' in command) {
    // One that is read as a stream tells by events; one whose preparing failed only that it has come to its end, after
    // that failure.
    command.once(errorMonitor, answer)
    command.once('end', () => answer(undefined))
  }
}

/**
 * What is sent meanwhile, in this very tick, is a statement of a session of ours, of which the session itself tells what
 * is seen on the connection.
 */
export function sendingOurs(connection: WatchedConnection, send: () => void): void {
  sending = connection
  try {
    send()
  } finally {
    sending = undefined
  }
}
