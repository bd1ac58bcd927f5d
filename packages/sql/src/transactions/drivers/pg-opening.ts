import { createHash } from 'node:crypto'
import { TransactionConflictError } from '@txbox/core'
import { propertyOf, reasonOf } from '@txbox/core/internal'
import type { Opening } from '../root-adapter.ts'
import { sendOn, sendTogether, type Wire } from './pg-flight.ts'
import { pgStatements } from './pg-statements.ts'

/**
 * A client whose class has the `Query` of `pg`, and that lets a query write to the wire by itself, as the queries of
 * pg-cursor do.
 */
interface WireClient {
  query(query: PgQuery): unknown
  query(text: string): Promise<unknown>
}
interface Result {
  readonly rowCount: number | null
}
interface PgQuery {
  callback: (error: unknown, results: readonly Result[]) => void
  submit: (wire: Wire) => null
}
type QueryClass = new (config: { text: string }) => PgQuery

/**
 * Invalid statement name, and duplicate prepared statement: a pooler has moved the client to another server connection.
 */
const UNPREPARED: ReadonlySet<unknown> = new Set(['26000', '42P05'])

/** PgBouncer with `max_prepared_statements`: a DEALLOCATE has removed the statement, and the connection is closed. */
const FORGOTTEN = /prepared statement did not exist/

/** The pools that connect through such a pooler. */
const behindPooler = new WeakSet<object>()
/** The names of the statements that each client has prepared. */
const prepared = new WeakMap<object, Set<string>>()
const names = new Map<string, string>()

/**
 * Sends BEGIN and the first statement as one message of the extended protocol. After an error, the server skips the
 * rest of the message, so that no statement runs outside of the transaction. Returns `undefined` for clients without
 * access to the wire (`pg.native`).
 */
export function pgOpening(
  pool: object,
  client: object,
  begin: readonly string[],
): (Opening & { readonly used: boolean }) | undefined {
  const { Query } = client.constructor as { Query?: QueryClass }
  if (Query === undefined || Reflect.get(client, 'connection') === undefined) return undefined
  const wireClient = client as WireClient
  let used = false
  return {
    get used() {
      return used
    },
    async alone() {
      if (used) return
      used = true
      await wireClient.query(begin.join('; '))
    },
    async with(text, values) {
      used = true
      const written = async (name: string): Promise<number> => {
        const results = await send(wireClient, new Query({ text }), { begin, text, values, name })
        return results[begin.length]?.rowCount ?? 0
      }
      if (behindPooler.has(pool)) return written('')
      try {
        return await written(nameOf(text))
      } catch (error) {
        const isForgotten = FORGOTTEN.test(reasonOf(error))
        if (!isForgotten && !UNPREPARED.has(propertyOf(error, 'code'))) throw error
        behindPooler.add(pool)
        if (isForgotten) throw forgotten(error)
        await wireClient.query(pgStatements.rollback)
        return written('')
      }
    },
  }
}

function forgotten(cause: unknown): TransactionConflictError {
  return new TransactionConflictError(
    'The pooler has forgotten a prepared statement, and has closed the connection. Nothing was written. Run the transaction again.',
    { cause },
  )
}

interface Flight {
  readonly begin: readonly string[]
  readonly text: string
  readonly values: readonly unknown[]
  /** The name of the prepared statement. If the name is empty, the server parses the statement each time. */
  readonly name: string
}

/** @returns the results of all statements of the flight. */
function send(
  client: WireClient,
  query: PgQuery,
  { begin, text, values, name }: Flight,
): Promise<readonly Result[]> {
  const known = prepared.get(client) ?? new Set()
  prepared.set(client, known)
  return new Promise((resolve, reject) => {
    query.callback = (error, results) => {
      if (error !== null && error !== undefined) return reject(error)
      if (name !== '') known.add(name)
      resolve(results)
    }
    query.submit = (wire) => {
      sendTogether(wire, (flight) => {
        for (const statement of begin) sendOn(flight, statement)
        if (!known.has(name)) {
          // After a claim that failed, the server has the statement although the flight did not succeed. PgBouncer would
          // close the connection when the name is prepared twice.
          if (name !== '') flight.close({ type: 'S', name })
          flight.parse({ name, text, types: [] })
        }
        flight.bind({ portal: '', statement: name, values: values.map(asText) })
        flight.execute({ portal: '', rows: 0 })
        flight.sync()
      })
      return null
    }
    client.query(query)
  })
}

/** The values of txbox's statements are text and numbers. */
function asText(value: unknown): string | null {
  if (value === null || value === undefined) return null
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Names a statement by the hash of its text, so that several versions of txbox can share a connection. */
function nameOf(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    name = `txbox_${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
    names.set(text, name)
  }
  return name
}
