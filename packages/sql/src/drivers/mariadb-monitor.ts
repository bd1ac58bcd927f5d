import type { EventEmitter } from 'node:events'
import { propertyOf } from '@txbox/core/internal'
import { MonitoredConnection, type Send } from '../connection-monitor.ts'
import { emitterBehind, type ListeningHandle } from '../emitter-behind.ts'
import { hasFunction } from '../members.ts'
import { effectOf, type Effect } from '../statement-effect.ts'

/** The part of a connection of `mariadb`, of promise or callback style, that leads to the connection underneath. */
export interface ListeningConnection extends ListeningHandle {
  readonly info?: { readonly status?: number | null } | null
}

/**
 * The connection underneath, which all connections that a pool hands out share. Undocumented: without these methods the
 * server is asked instead.
 */
interface BaseConnection {
  readonly info: { readonly status?: number | null }
  readonly opts?: { readonly multipleStatements?: unknown }
  /** All commands to the server pass through this method, which is at any time one of the two below, or refuses. */
  addCommand: AddCommand
  addCommandEnable: AddCommand
  addCommandEnablePipeline: AddCommand
}
type AddCommand = (this: unknown, command: Command, expectsAnswer?: boolean) => unknown

/** Emits 'end' in the moment in which the answer has been read, with the error if there is one. */
interface Command extends EventEmitter {
  readonly sql?: unknown
}

/** A statement of txbox. */
interface OwnStatement {
  readonly base: BaseConnection
  /** The status in the answer. Another answer may have been read before the caller hears of this one. */
  status: number | null | undefined
}

/** The connection, and what is known of it. */
export interface Watched {
  readonly base: BaseConnection
  readonly monitor: MonitoredConnection
}

/** By `info`, which belongs to the connection underneath: a connection that is passed may be a proxy. */
const watched = new WeakMap<object, Watched>()

/** The statement of txbox that is sent in this tick. */
let sending: OwnStatement | undefined

/**
 * @param send sends a statement on the connection.
 * @returns what is known of a connection; `undefined` when the connection cannot be watched.
 */
export function watchedOf<C extends ListeningConnection>(
  connection: C,
  send: (connection: C, sql: string) => Promise<unknown>,
): Watched | undefined {
  const { info } = connection
  if (info === undefined || info === null) return undefined
  const known = watched.get(info)
  if (known !== undefined) return known
  const base = baseOf(connection)
  if (base?.info !== info || !hasFunction(base, 'addCommandEnablePipeline')) return undefined
  const monitor = watch(base, (sql) => sendOwn(base, () => send(connection, sql)).sent)
  const created = { base, monitor }
  watched.set(info, created)
  return created
}

/** Sends a statement of txbox, about which the caller itself tells the monitor. */
export function sendOwn<T>(
  base: BaseConnection,
  send: () => T,
): { readonly own: OwnStatement; readonly sent: T } {
  const own: OwnStatement = { base, status: undefined }
  sending = own
  try {
    return { own, sent: send() }
  } finally {
    sending = undefined
  }
}

/** The connection underneath is private, but calls its listeners as its own. */
function baseOf(connection: ListeningConnection): BaseConnection | undefined {
  const base = emitterBehind(connection)
  return hasFunction(base, 'addCommand') && hasFunction(base, 'addCommandEnable')
    ? (base as BaseConnection)
    : undefined
}

/** A connection outlives its transactions in the pool, so it is wrapped once. */
function watch(base: BaseConnection, send: Send): MonitoredConnection {
  const monitor = new MonitoredConnection(send)
  const several = base.opts?.multipleStatements !== false
  const following = (add: AddCommand): AddCommand =>
    function (command, expectsAnswer) {
      const own = sending?.base === base ? sending : undefined
      if (own !== undefined) command.once('end', () => (own.status = base.info.status))
      else if (expectsAnswer === true) follow(monitor, command, several)
      return add.call(base, command, expectsAnswer)
    }
  // The connection sets the first to one of the others again after it has imported a file or changed the user.
  const { addCommand, addCommandEnable, addCommandEnablePipeline } = base
  base.addCommandEnable = following(addCommandEnable)
  base.addCommandEnablePipeline = following(addCommandEnablePipeline)
  base.addCommand =
    addCommand === addCommandEnablePipeline
      ? base.addCommandEnablePipeline
      : addCommand === addCommandEnable
        ? base.addCommandEnable
        : following(addCommand)
  return monitor
}

function follow(monitor: MonitoredConnection, command: Command, several: boolean): void {
  const effect = effectOfCommand(command, several)
  monitor.sent(effect)
  command.once('end', (error: unknown) => {
    if (error === undefined || error === null) monitor.succeeded(effect)
    else monitor.failed(error, false)
  })
}

function effectOfCommand(command: Command, several: boolean): Effect {
  // Preparing a statement has no effect: another command executes it.
  if ('executeCommand' in command) return 'none'
  const sql = propertyOf(command, 'sql')
  return typeof sql === 'string' ? effectOf(sql, several) : 'unknown'
}
