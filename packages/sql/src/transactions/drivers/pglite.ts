import type { DriverAdapter, SqlResult } from '../adapters.ts'
import type { RootAdapter } from '../root-adapter.ts'
import { hasBoolean, hasFunction } from '../members.ts'
import { withLiterals } from './postgres-literals.ts'
import { outsideTransaction } from './hidden-errors.ts'
import { hiddenStatements } from './hidden-statements.ts'

/** The part of PGlite that txbox uses; `@electric-sql/pglite` itself is not imported. */
interface Pglite {
  exec(text: string, options: object): Promise<readonly PgliteResult[]>
  readonly closed: boolean
}
interface PgliteResult {
  readonly rows: readonly Record<string, unknown>[]
  readonly affectedRows?: number
}
interface PgliteRoot extends Pglite {
  transaction<T>(work: (tx: Pglite) => Promise<T>): Promise<T>
}

/** Every statement returns values of type text (25), which a parser of the user must not change. */
const AS_TEXT = { rowMode: 'object', parsers: { 25: (text: string) => text } }

/** A transaction of PGlite 0.5, which has one connection in the process. */
export const pgliteHandle: DriverAdapter<Pglite> = {
  name: 'PGlite',
  recognises: isPglite,
  state: (tx) => (isTransaction(tx) && !tx.closed ? 'open' : 'none'),
  stateNow: (tx) => (tx.closed ? 'none' : 'open'),
  monitor: () => undefined,
  async query(tx, text, values) {
    try {
      return await run(tx, hiddenStatements.onlyInTransaction(withLiterals(text, values)))
    } catch (error) {
      throw outsideTransaction(error, 'PGlite')
    }
  },
}

/** A database of PGlite. A statement outside a transaction waits until an open transaction has ended. */
export const pgliteRoot: RootAdapter<PgliteRoot> = {
  name: 'PGlite',
  checksCommit: false,
  recognises: (root): root is PgliteRoot =>
    isPglite(root) && !isTransaction(root) && hasFunction(root, 'transaction'),
  maxConnections: () => undefined,
  query: (db, text, values) => run(db, withLiterals(text, values)),
  connect(db) {
    return new Promise((resolve, reject) => {
      // Only a transaction has the connection to itself. After the ROLLBACK, each statement is a transaction of its
      // own, and COMMIT has no effect.
      const held = db.transaction(async (tx) => {
        await run(tx, hiddenStatements.rollback)
        await new Promise<void>((release) => {
          resolve({
            query: (text, values) => run(tx, withLiterals(text, values)),
            release: () => release(),
          })
        })
      })
      held.catch(reject)
    })
  },
  transact: (db, work, isolation) =>
    db.transaction(async (tx) => {
      if (isolation !== undefined) await run(tx, hiddenStatements.setLevel(isolation))
      return work(tx, undefined)
    }),
}

async function run(db: Pglite, text: string): Promise<SqlResult> {
  // The caller's statement is the last one.
  const result = (await db.exec(text, AS_TEXT)).at(-1)
  return { rows: result?.rows ?? [], affected: result?.affectedRows ?? Number.NaN }
}

function isPglite(value: unknown): value is Pglite {
  return (
    hasFunction(value, 'exec') &&
    hasFunction(value, 'query') &&
    hasFunction(value, 'sql') &&
    hasBoolean(value, 'closed')
  )
}

function isTransaction(value: unknown): boolean {
  return hasFunction(value, 'rollback')
}
