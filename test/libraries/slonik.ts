import { defineLibrary, sqlTransaction, type SqlTransaction } from '@txbox/core'
import { poolOf } from '../support/engines/postgres-pool.ts'
import type { Row } from '../support/engines/target.ts'
import type { LibraryModule } from './library-under-test.ts'

interface Slonik {
  readonly createPool: (url: string, options: object) => Promise<Pool>
}
interface Pool extends Transaction {
  end(): Promise<void>
}
interface Transaction {
  query(token: object): Promise<{ rows: Row[]; rowCount: number }>
  transaction<T>(work: (tx: Transaction) => Promise<T>, retries: number): Promise<T>
}

/** Slonik by sqlTransaction, as the guide shows it. It runs only one statement of a text. */
export const libraryUnderTest: LibraryModule['libraryUnderTest'] = async (load) => {
  const { createPool } = (await load('slonik')) as Slonik
  const inside = new WeakMap<object, Transaction>()

  function run(t: Transaction, text: string, values: readonly unknown[]): ReturnType<Transaction['query']> {
    return t.query({ type: 'SLONIK_TOKEN_QUERY', sql: text, values, parser: ANYTHING })
  }

  async function wrapped<T>(t: Transaction, work: (tx: SqlTransaction) => Promise<T>): Promise<T> {
    let open = true
    const sent: Promise<unknown>[] = []
    const query = (text: string, values: readonly unknown[]): ReturnType<Transaction['query']> => {
      const answer = run(t, text, values)
      sent.push(answer)
      return answer
    }
    const tx = sqlTransaction({ name: 'Slonik', query, isOpen: () => open })
    inside.set(tx, t)
    try {
      return await work(tx)
    } finally {
      open = false
      await Promise.allSettled(sent)
    }
  }

  return {
    name: 'Slonik by sqlTransaction',
    driver: 'hidden',
    rootFor: 'all',
    hidesConnection: true,
    losesConnectionAtCommit: true,
    open({ url, max, isolation }) {
      const own = poolOf(url, { max: 2 })
      const address = new URL(url)
      if (isolation !== undefined) {
        address.searchParams.set(
          'options',
          `-c default_transaction_isolation=${isolation.replace(' ', '\\ ')}`,
        )
      }
      let pool: Promise<Pool> | undefined
      const slonik = (): Promise<Pool> =>
        (pool ??= createPool(address.href, {
          maximumPoolSize: max,
          typeParsers: [],
          resetConnection: keepConnection,
        }))
      const transact = async <T>(work: (tx: SqlTransaction) => Promise<T>, level?: string): Promise<T> =>
        (await slonik()).transaction(async (t) => {
          if (level !== undefined) await run(t, `set transaction isolation level ${level}`, [])
          return wrapped(t, work)
        }, 0)
      const db = { own }
      const library = defineLibrary({
        name: 'Slonik',
        recognises: (handle): handle is never => handle === db,
        connectionOf: () => undefined,
        root: {
          recognises: (root): root is typeof db => root === db,
          poolOf: (root) => root.own,
          transact: (_, work, level) => transact((tx) => work(tx as never), level),
        },
      })
      return {
        db,
        libraries: [library],
        transact,
        async close() {
          await (await slonik()).end()
          await own.end()
        },
      }
    },
    exec: async (tx, text, parameters) => (await run(inside.get(tx)!, text, parameters)).rows,
    nested: (tx, work) => inside.get(tx)!.transaction((t) => wrapped(t, work), 0),
  }
}

/** A schema in the form of zod that lets every row through. */
const ANYTHING = {
  safeParseAsync: async (data: unknown) => ({ success: true, data }),
  '~standard': { version: 1, vendor: 'mine', validate: (value: unknown) => ({ value }) },
}

/** By default Slonik sends DISCARD ALL after each use of a connection, which the tests would count. */
const keepConnection = async (): Promise<void> => undefined
