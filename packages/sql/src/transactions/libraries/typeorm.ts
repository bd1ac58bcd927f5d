import { DatabaseUnavailableError, type IsolationLevel, type TransactionLibrary } from '@txbox/core'
import { propertyOf } from '@txbox/core/internal'
import { hasBoolean, hasFunction } from '../members.ts'

interface QueryRunner {
  readonly isTransactionActive: boolean
  readonly isReleased: boolean
  /** Returns the connection that the runner holds. */
  connect(): Promise<object>
}
interface EntityManager {
  /** Absent outside of a transaction: `dataSource.manager` has the same class. */
  readonly queryRunner?: QueryRunner
}
interface DataSource {
  readonly isInitialized?: boolean
  /** `master` is the pool of pg, and `pool` is that of mysql2. Both exist only after `initialize()`. */
  readonly driver: { readonly master?: object; readonly pool?: object }
  transaction<T>(work: (em: EntityManager) => Promise<T>): Promise<T>
  transaction<T>(isolation: string, work: (em: EntityManager) => Promise<T>): Promise<T>
}

/** TypeORM 0.3 and 1: an EntityManager in a transaction, or a QueryRunner. */
export const typeorm: TransactionLibrary<EntityManager | QueryRunner, DataSource> = {
  name: 'TypeORM',
  recognises: (handle): handle is EntityManager | QueryRunner =>
    isEntityManager(handle) || isQueryRunner(handle) || isDataSource(handle),
  connectionOf: (handle) => (isOpen(handle) ? runnerOf(handle).connect!() : undefined),
  isOpen,
  root: {
    recognises: isDataSource,
    poolOf: ({ driver }) => driver.master ?? driver.pool,
    async transact(source, work, isolation) {
      if (source.isInitialized === false) {
        throw new DatabaseUnavailableError(
          'The TypeORM root is not connected. Await dataSource.initialize() before txbox uses the root.',
        )
      }
      return isolation === undefined
        ? source.transaction(work)
        : source.transaction(isolation.toUpperCase() satisfies string as Uppercase<IsolationLevel>, work)
    },
  },
}

/**
 * Called for every statement. An EntityManager outside of a transaction has no runner, and no `isTransactionActive` of
 * its own.
 */
function isOpen(handle: EntityManager | QueryRunner): boolean {
  const { isTransactionActive, isReleased } = runnerOf(handle)
  return isTransactionActive === true && !isReleased
}

function runnerOf(handle: EntityManager | QueryRunner): Partial<QueryRunner> {
  return (handle as EntityManager).queryRunner ?? (handle as QueryRunner)
}

function isQueryRunner(value: unknown): value is QueryRunner {
  return (
    hasFunction(value, 'startTransaction') &&
    hasFunction(value, 'connect') &&
    hasBoolean(value, 'isTransactionActive')
  )
}

/** TypeORM marks its objects, so that a program may contain several copies of TypeORM. */
function isEntityManager(value: unknown): value is EntityManager {
  return propertyOf(value, '@instanceof') === Symbol.for('EntityManager')
}

function isDataSource(value: unknown): value is DataSource {
  return propertyOf(value, '@instanceof') === Symbol.for('DataSource')
}
