import type { IsolationLevel, TransactionLibrary } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { hasFunction } from '../members.ts'
import { movedInternals } from './moved-internals.ts'
import { driverConnectionOf, type KyselyTransaction } from './kysely-connection.ts'

/** The part of an `EntityManager` that txbox uses. In a transaction, an EntityManager has the same class. */
interface EntityManager {
  isInTransaction(): boolean
  /** MikroORM 7: a controlled transaction of Kysely. MikroORM 6: a transaction of Knex. */
  getTransactionContext(): unknown
  getConnection(type: 'write'): Connection
  fork(): EntityManager
  transactional<T>(
    work: (em: EntityManager) => Promise<T>,
    options: { readonly isolationLevel?: IsolationLevel },
  ): Promise<T>
}
interface Connection {
  /** MikroORM 7. Rejects if the user has created the pool. */
  getNativeClient?(): Promise<object>
  /** MikroORM 7: a root of Kysely. */
  getClient?(): unknown
  /** MikroORM 6: a root of Knex. */
  getKnex?(): unknown
}

interface KnexTransaction {
  isCompleted(): boolean
  readonly executionPromise: Promise<unknown>
}

/** MikroORM 6 and 7. `orm.em` has the same class as a transaction, but is one only inside `transactional`. */
export const mikroorm: TransactionLibrary<EntityManager, EntityManager> = {
  name: 'MikroORM',
  recognises: isEntityManager,
  async connectionOf(em) {
    if (!isOpen(em)) return undefined
    const transaction = em.getTransactionContext()
    if (transaction === undefined)
      throw movedInternals('MikroORM', 'em.getTransactionContext()', '6.6 and 7.2')
    if (!hasFunction(transaction, 'getExecutor')) return transaction
    // Kysely's transaction is second best: MikroORM's Kysely does not look at PostgreSQL's answer to COMMIT, so that a
    // rollback after a hook's error would count as processed, and on MySQL each call asks the server for the state.
    const own = await driverConnectionOf(transaction as KyselyTransaction, () => poolOf(em))
    return own ?? transaction
  },
  isOpen,
  root: {
    recognises: isEntityManager,
    async poolOf(em) {
      const connection = em.getConnection('write')
      return connection.getKnex?.() ?? (await poolOf(em)) ?? connection.getClient?.()
    },
    transact: (em, work, isolation) =>
      em.fork().transactional(
        async (own) => {
          await begun(own)
          return work(own)
        },
        isolation === undefined ? {} : { isolationLevel: isolation },
      ),
  },
}

/** After a BEGIN that failed, MikroORM 6 continues, with a Knex transaction that has ended. */
async function begun(em: EntityManager): Promise<void> {
  const transaction = em.getTransactionContext() as Partial<KnexTransaction> | undefined
  if (transaction?.isCompleted?.() === true) await transaction.executionPromise
}

/** An EntityManager keeps a transaction that was committed by hand with `getTransactionContext().commit()`. */
function isOpen(em: EntityManager): boolean {
  if (!em.isInTransaction()) return false
  const transaction = em.getTransactionContext()
  return propertyOf(transaction, 'isCommitted') !== true && propertyOf(transaction, 'isRolledBack') !== true
}

/** Returns the pool of `pg` or `mysql2`, unless the user has passed another Kysely. */
async function poolOf(em: EntityManager): Promise<object | undefined> {
  try {
    return await em.getConnection('write').getNativeClient?.()
  } catch {
    return undefined
  }
}

function isEntityManager(value: unknown): value is EntityManager {
  return (
    hasFunction(value, 'isInTransaction') &&
    hasFunction(value, 'getTransactionContext') &&
    hasFunction(value, 'getConnection') &&
    hasFunction(value, 'transactional')
  )
}
