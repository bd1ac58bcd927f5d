import type { IsolationLevel, TransactionLibrary } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { hasFunction } from '../members.ts'

/** The part of Knex that txbox uses. A Knex, and its transaction, is a function. */
interface Knex {
  readonly client: KnexClient
  transaction<T>(
    work: (trx: KnexTransaction) => Promise<T>,
    config?: { readonly isolationLevel: IsolationLevel },
  ): Promise<T>
}
interface KnexTransaction {
  readonly client: KnexClient
  isCompleted(): boolean
}
interface KnexClient {
  acquireConnection(): Promise<object>
  releaseConnection(connection: object): Promise<void>
  readonly pool?: { readonly max?: number } | undefined
}

/** Knex discards a connection with this property when the connection is given back. */
const DISPOSED = '__knex__disposed'

/** Knex 3, and Objection, whose transactions are those of Knex. */
export const knex: TransactionLibrary<KnexTransaction, Knex> = {
  name: 'Knex',
  recognises: (handle): handle is KnexTransaction => isKnex(handle),
  // In a transaction this is the connection of the transaction, without a round trip.
  connectionOf: (trx) =>
    isTransaction(trx) && !trx.isCompleted() ? trx.client.acquireConnection() : undefined,
  isOpen: (trx) => !trx.isCompleted(),
  root: {
    recognises: (root): root is Knex => isKnex(root) && !isTransaction(root),
    async borrow({ client }) {
      const connection = await client.acquireConnection()
      return {
        connection,
        giveBack(broken) {
          if (broken) Reflect.set(connection, DISPOSED, new Error('txbox has discarded the connection.'))
          return client.releaseConnection(connection)
        },
      }
    },
    maxConnections: ({ client }) => client.pool?.max,
    transact: (db, work, isolation) =>
      db.transaction(work, ...(isolation === undefined ? [] : [{ isolationLevel: isolation }])),
  },
}

function isTransaction(value: unknown): boolean {
  return propertyOf(value, 'isTransaction') === true && hasFunction(value, 'isCompleted')
}

function isKnex(value: unknown): boolean {
  return (
    typeof value === 'function' &&
    hasFunction(value, 'raw') &&
    hasFunction(propertyOf(value, 'client'), 'acquireConnection')
  )
}
