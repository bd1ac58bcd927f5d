import type { DriverAdapter, Snapshot, SqlResult, TransactionState } from '../adapters.ts'
import { hasFunction, hasNumber } from '../members.ts'
import { COMMAND_TAGS } from './pg-statements.ts'

/** The part of a `pg` client that txbox uses; `pg` itself is not imported. */
export interface PgClient {
  query(text: string, values?: unknown[]): Promise<PgResult>
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
  off(event: 'error', listener: () => void): unknown
  end(): Promise<void>
}
interface AnswerEvents {
  readonly stream?: { destroy(): unknown }
  on(event: 'readyForQuery', listener: (message: { status?: string }) => void): unknown
  on(event: 'commandComplete', listener: (message: { text?: string }) => void): unknown
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
  async state(client) {
    if (isPool(client)) return 'none'
    if (client.getTransactionStatus === undefined) {
      return client._connected === false && client._connecting === false ? 'none' : 'unknown'
    }
    // The status is that of the last answer. While a statement is in flight, and right after an error was caught, the
    // status is out of date. An empty query waits for all other statements, and its answer contains the state after
    // them.
    if (client.readyForQuery === false) await client.query('')
    return stateOf(client.getTransactionStatus())
  },
  stateNow(client) {
    if (client.getTransactionStatus === undefined) return 'open'
    return client.readyForQuery === false ? undefined : stateOf(client.getTransactionStatus())
  },
  identityOf,
  monitor(client) {
    return { snapshot: () => answersSince(answersTo(client)) }
  },
  async query(client, text, values) {
    return toSqlResult(await client.query(text, values as unknown[]))
  },
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

/** Counts the server's answers to a client since txbox first used the client. */
interface Answers {
  /** The number of answers that report the end of a transaction, even if another transaction is open by now. */
  ends: number
  savepoints: number
  /** The number of rollbacks, of a transaction or to a savepoint: the command tag is the same. */
  rollbacks: number
}

const answers = new WeakMap<object, Answers>()

function identityOf(client: PgClient): object {
  return client.connection ?? client
}

/**
 * The command tags of the answers show each statement, even if one text contained several, and however the text was
 * sent.
 */
function answersTo(client: PgClient): Answers {
  const identity = identityOf(client)
  let known = answers.get(identity)
  if (known === undefined) {
    const counted: Answers = { ends: 0, savepoints: 0, rollbacks: 0 }
    client.connection?.on('readyForQuery', ({ status }) => void (status === 'I' && counted.ends++))
    client.connection?.on('commandComplete', ({ text }) => {
      if (text === COMMAND_TAGS.commit || text === COMMAND_TAGS.prepare) counted.ends++
      else if (text === COMMAND_TAGS.savepoint) counted.savepoints++
      else if (text === COMMAND_TAGS.rollback) counted.rollbacks++
    })
    answers.set(identity, (known = counted))
  }
  return known
}

function answersSince(counted: Answers): Snapshot {
  const { ends, savepoints, rollbacks } = counted
  const rolledBack = (): boolean => counted.rollbacks !== rollbacks
  return {
    doubtful: false,
    replaced: false,
    get rolledBack() {
      return rolledBack()
    },
    get ended() {
      // If the handler set no savepoint, any savepoint that a ROLLBACK could name is older than the handler.
      return counted.ends !== ends || (rolledBack() && counted.savepoints === savepoints)
    },
  }
}

function stateOf(status: 'I' | 'T' | 'E' | null): TransactionState {
  return status === null ? 'none' : STATES[status]
}

export function toSqlResult(result: PgResult): SqlResult {
  return { rows: result.rows, affected: result.rowCount ?? 0 }
}

/** The `db` of `@vercel/postgres` is a function, and a proxy of a pool. */
export function isPool(value: unknown): boolean {
  return hasNumber(value, 'totalCount') && hasFunction(value, 'connect')
}
