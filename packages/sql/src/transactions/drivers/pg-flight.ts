import type { SqlResult } from '../adapters.ts'
import { pgStatements } from './pg-statements.ts'

/** A `Query` of `pg`, which can write to the wire by itself. */
export interface FlyingQuery {
  callback: (error: unknown, results: unknown) => void
  query_timeout: number
  submit: (wire: Wire) => null
  prepare(wire: Wire): void
}
/** The extended query protocol: https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-EXT-QUERY */
export interface Wire {
  parse(message: { name: string; text: string; types: number[] }): void
  /** Forgets a prepared statement; a name that is unknown is no error. */
  close(message: { type: 'S'; name: string }): void
  bind(message: { portal: string; statement: string; values: (string | null)[] }): void
  execute(message: { portal: string; rows: number }): void
  sync(): void
  readonly stream: WireStream
}

interface WireStream {
  cork?(): void
  uncork?(): void
  readonly writable: boolean
  write(chunk: Uint8Array): unknown
}

interface Flight {
  readonly timeoutMs: number
  /** The server cancels the statement after this time. */
  readonly cancelAfterMs: number
}

/**
 * Turns a query into a new READ COMMITTED transaction with one statement, all in one flight. After an error, the server
 * skips the rest, so the transaction stays open, and the connection must not be used again.
 */
export function asFlight<Q extends FlyingQuery>(query: Q, { timeoutMs, cancelAfterMs }: Flight): Q {
  query.query_timeout = timeoutMs
  query.submit = (wire) => {
    wire.stream.cork?.()
    sendOn(wire, pgStatements.beginReadCommitted)
    sendOn(wire, pgStatements.limitStatements(cancelAfterMs))
    query.prepare(committing(wire))
    wire.stream.uncork?.()
    return null
  }
  return query
}

/** Turns the first of several queries into a flight of all of them. */
export function asOneFlight<Q extends FlyingQuery>(queries: readonly [Q, ...Q[]]): Q {
  const [first] = queries
  first.submit = (wire) => {
    wire.stream.cork?.()
    for (const query of queries) query.prepare(query === queries.at(-1) ? wire : unsynced(wire))
    wire.stream.uncork?.()
    return null
  }
  return first
}

export function resultOfFlight(results: unknown): SqlResult {
  const { rows, rowCount } = (results as readonly { rows: SqlResult['rows']; rowCount: number | null }[])[2]!
  return { rows, affected: rowCount ?? 0 }
}

/** Returns a wire that does not end the flight. */
function unsynced(wire: Wire): Wire {
  return Object.create(wire, { sync: { value: () => undefined } }) as Wire
}

/** Returns a wire that sends COMMIT before the end of the flight. */
function committing(wire: Wire): Wire {
  return Object.create(wire, {
    sync: {
      value() {
        sendOn(wire, pgStatements.commit)
        wire.sync()
      },
    },
  }) as Wire
}

/** Sends several messages as one chunk: the system takes longer for many small chunks, even if they are sent together. */
export function sendTogether(wire: Wire, send: (wire: Wire) => void): void {
  const chunks: Uint8Array[] = []
  const stream: WireStream = { writable: true, write: (chunk) => chunks.push(chunk) }
  send(Object.create(wire, { stream: { value: stream } }) as Wire)
  if (wire.stream.writable) wire.stream.write(Buffer.concat(chunks))
}

/** Adds a statement without values to a flight. */
export function sendOn(wire: Wire, text: string): void {
  wire.parse({ name: '', text, types: [] })
  wire.bind({ portal: '', statement: '', values: [] })
  wire.execute({ portal: '', rows: 0 })
}

export function answerTo(
  client: { query(query: never): unknown },
  query: Pick<FlyingQuery, 'callback'>,
): Promise<unknown> {
  return new Promise((resolve, reject) => {
    query.callback = (error, results) => {
      if (error !== null && error !== undefined) reject(error)
      else resolve(results)
    }
    void client.query(query as never)
  })
}
