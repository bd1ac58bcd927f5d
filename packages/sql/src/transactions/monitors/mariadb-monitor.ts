import type { EventEmitter } from 'node:events'
import { propertyOf } from '@txbox/core/internal'
import { MonitoredConnection, type Send } from './connection-monitor.ts'
import { emitterBehind, type ListeningHandle } from './emitter-behind.ts'
import { hasFunction } from '../members.ts'
import { effectOf, type Effect } from './statement-effect.ts'

/**
 * The part of a connection of `mariadb`, of promise or callback style, that gives access to the underlying connection.
 */
export interface ListeningConnection extends ListeningHandle {
  readonly info?: { readonly status?: number | null } | null
}

/**
 * The underlying connection, which all connections that a pool hands out share. Its methods are undocumented: if they
 * are missing, txbox asks the server instead.
 */
interface BaseConnection {
  readonly info: { readonly status?: number | null }
  readonly opts?: { readonly multipleStatements?: unknown }
  /**
   * All commands to the server pass through this method. At any time it is one of the two methods below, or one that
   * refuses commands.
   */
  addCommand: AddCommand
  addCommandEnable: AddCommand
  addCommandEnablePipeline: AddCommand
}
type AddCommand = (this: unknown, command: Command, expectsAnswer?: boolean) => unknown

/** Emits 'end' as soon as the answer has been read, with the error if there is one. */
interface Command extends EventEmitter {
  readonly sql?: unknown
}

interface OwnStatement {
  readonly base: BaseConnection
  /**
   * The status in the answer. It is stored here because another answer may have been read before the caller gets this
   * one.
   */
  status: number | null | undefined
}

interface Watched {
  readonly base: BaseConnection
  readonly monitor: MonitoredConnection
}

/**
 * The key is `info`, which belongs to the underlying connection: the connection that the caller passes may be a proxy.
 */
const watched = new WeakMap<object, Watched>()

/** The statement of txbox that is sent in this tick. */
let sending: OwnStatement | undefined

/**
 * @param send sends a statement on the connection.
 * @returns the connection with its monitor; `undefined` if the connection cannot be watched.
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

/** Sends a statement of txbox. The caller itself reports that statement to the monitor. */
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

/** The underlying connection is private, but it calls its listeners with itself as `this`. */
function baseOf(connection: ListeningConnection): BaseConnection | undefined {
  const base = emitterBehind(connection)
  return hasFunction(base, 'addCommand') && hasFunction(base, 'addCommandEnable')
    ? (base as BaseConnection)
    : undefined
}

/** A pool keeps a connection longer than its transactions, so a connection is wrapped only once. */
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
  // After the connection has imported a file or changed the user, it sets `addCommand` to one of the other two again.
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
