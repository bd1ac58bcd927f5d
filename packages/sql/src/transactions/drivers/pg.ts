import { propertyOf } from '@txbox/core/internal'
import type { ConnectionMonitor, DriverAdapter, Snapshot, SqlResult, TransactionState } from '../adapters.ts'
import { isOfAborted } from '../aborted-transaction.ts'
import { endOf } from '../end-of-connection.ts'
import { hasFunction, hasNumber } from '../members.ts'
import { COMMAND_TAGS, pgStatements } from './pg-statements.ts'

/** The part of a `pg` client that txbox uses; `pg` itself is not imported. */
export interface PgClient {
  query(text: string, values?: unknown[]): Promise<PgResult>
  query(config: { text: string; values: unknown[]; query_timeout: number }): Promise<PgResult>
  escapeIdentifier(text: string): string
  /** Since pg 8.21; also absent from `pg.native`. */
  getTransactionStatus?(): 'I' | 'T' | 'E' | null
  /** False before `connect` has been called: until then, pg would queue statements. Undocumented. */
  readonly _connected?: boolean
  readonly _connecting?: boolean
  readonly readyForQuery?: boolean
  /** Absent from `pg.native`. */
  readonly connection?: AnswerEvents
  on(event: 'error', listener: (error: unknown) => void): unknown
  off(event: 'error', listener: (error: unknown) => void): unknown
  end(): Promise<void>
}
interface AnswerEvents {
  readonly stream?: { destroy(): unknown }
  on(event: 'readyForQuery', listener: (message: { status?: string }) => void): unknown
  on(event: 'commandComplete', listener: (message: { text?: string }) => void): unknown
  on(event: 'errorMessage', listener: (error: unknown) => void): unknown
}
export interface PgResult {
  readonly rows: Record<string, unknown>[]
  readonly rowCount: number | null
  readonly command: string
}
const STATES = { I: 'none', T: 'open', E: 'aborted' } as const

/** A `pg` client, which knows the state of its transaction by itself. */
export const pgHandle: DriverAdapter<PgClient> = {
  name: 'pg',
  recognises(handle): handle is PgClient {
    return hasFunction(handle, 'query') && (hasFunction(handle, 'escapeIdentifier') || isPool(handle))
  },
  state(client) {
    if (isPool(client)) return 'none'
    if (client.getTransactionStatus === undefined) {
      return client._connected === false && client._connecting === false ? 'none' : 'unknown'
    }
    // The status is that of the last answer. While a statement is in flight, and right after an error was caught, the
    // status is out of date. An empty query waits for all other statements, and its answer contains the state after
    // them.
    if (client.readyForQuery === false) return client.query('').then(() => statusOf(client))
    return statusOf(client)
  },
  stateNow(client) {
    if (client.getTransactionStatus === undefined) return 'open'
    return client.readyForQuery === false ? undefined : statusOf(client)
  },
  identityOf,
  monitor(client) {
    const identity = identityOf(client)
    let monitor = monitors.get(identity)
    if (monitor === undefined) monitors.set(identity, (monitor = new AnswerMonitor(client.connection)))
    return monitor
  },
  query(client, text, values) {
    return client.query(text, values as unknown[]).then(toSqlResult)
  },
  limitIdleTime: (client, milliseconds) => client.query(pgStatements.limitIdleTime(milliseconds)),
  watchEnd: (client) => endOf(client, (error) => typeof propertyOf(error, 'severity') === 'string'),
  sever(client) {
    // A client without a listener for its 'error' event would end the process.
    client.on('error', () => undefined)
    const stream = client.connection?.stream
    // The connection is destroyed at once, so that the pool of a library notices it before the library's own ROLLBACK
    // has failed.
    if (stream === undefined) void client.end().catch(() => undefined)
    else stream.destroy()
  },
}

const monitors = new WeakMap<object, AnswerMonitor>()

function identityOf(client: PgClient): object {
  return client.connection ?? client
}

/**
 * Counts the server's answers to a client since the first snapshot. The command tags of the answers show each statement,
 * even if one text contained several, and however the text was sent.
 */
class AnswerMonitor implements ConnectionMonitor {
  /** The number of answers that report the end of a transaction, even if another transaction is open by now. */
  ends = 0
  savepoints = 0
  /** The number of rollbacks, of a transaction or to a savepoint: the command tag is the same. */
  rollbacks = 0
  /** The number of answers that report the rollback of a whole transaction. */
  undone = 0
  /** The number of answers after which something may be committed. */
  commits = 0
  abortedBy: unknown
  readonly #connection: AnswerEvents | undefined
  #listens = false
  #lastTag: string | undefined
  #endListener: ((isCommitted: boolean) => void) | undefined

  constructor(connection: AnswerEvents | undefined) {
    this.#connection = connection
  }

  get seesAnswers(): boolean {
    return this.#connection !== undefined
  }

  snapshot(): Snapshot {
    if (!this.#listens) this.#listen()
    return new AnswerSnapshot(this)
  }

  onceEnded(listener: (isCommitted: boolean) => void): void {
    if (!this.#listens) this.#listen()
    this.#endListener = listener
  }

  /** A connection on which messages are only published is not slowed down by listeners. */
  #listen(): void {
    this.#listens = true
    this.#connection?.on('readyForQuery', ({ status }) => {
      if (status !== 'I') return
      this.abortedBy = undefined
      this.ends++
      if (this.#lastTag === COMMAND_TAGS.rollback) this.undone++
      else this.commits++
      this.#ended(this.#lastTag === COMMAND_TAGS.commit)
    })
    this.#connection?.on('commandComplete', ({ text }) => {
      this.#lastTag = text
      if (text === COMMAND_TAGS.commit || text === COMMAND_TAGS.prepare) {
        this.ends++
        this.commits++
        this.#ended(true)
      } else if (text === COMMAND_TAGS.savepoint) this.savepoints++
      else if (text === COMMAND_TAGS.rollback) {
        this.rollbacks++
        this.abortedBy = undefined
      }
    })
    this.#connection?.on('errorMessage', (error) => {
      if (!isOfAborted(error)) this.abortedBy = error
    })
  }

  #ended(isCommitted: boolean): void {
    const listener = this.#endListener
    this.#endListener = undefined
    listener?.(isCommitted)
  }
}

class AnswerSnapshot implements Snapshot {
  readonly doubtful = false
  readonly #monitor: AnswerMonitor
  readonly #ends: number
  readonly #savepoints: number
  readonly #rollbacks: number
  readonly #undone: number
  readonly #commits: number

  constructor(monitor: AnswerMonitor) {
    this.#monitor = monitor
    this.#ends = monitor.ends
    this.#savepoints = monitor.savepoints
    this.#rollbacks = monitor.rollbacks
    this.#undone = monitor.undone
    this.#commits = monitor.commits
  }

  get rolledBack(): boolean {
    return this.#monitor.rollbacks !== this.#rollbacks
  }

  get undone(): boolean {
    return this.#monitor.undone !== this.#undone
  }

  /** Without the answers, nothing is known. */
  get mayHaveCommitted(): boolean {
    return !this.#monitor.seesAnswers || this.#monitor.commits !== this.#commits
  }

  get replaced(): boolean {
    return this.#monitor.ends !== this.#ends
  }

  get ended(): boolean {
    // If the handler set no savepoint, any savepoint that a ROLLBACK could name is older than the handler.
    return this.replaced || (this.rolledBack && this.#monitor.savepoints === this.#savepoints)
  }
}

function statusOf(client: PgClient): TransactionState {
  const status = client.getTransactionStatus!()
  return status === null ? 'none' : STATES[status]
}

export function toSqlResult(result: PgResult): SqlResult {
  return { rows: result.rows, affected: result.rowCount ?? 0 }
}

export function isPool(value: unknown): boolean {
  return hasNumber(value, 'totalCount') && hasFunction(value, 'connect')
}
