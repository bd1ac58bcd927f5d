/*
 * Only MySQL and MariaDB need this file: PostgreSQL takes the lock with one statement, in the transaction that
 * migrates.
 */
import { createHash, randomUUID } from 'node:crypto'
import { TransactionConflictError } from '@txbox/core'
import { untilTaken, type Migrating, type RunStatement } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { NO_TABLE, isConflict, numberOf } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { fill } from '../connection/literals.ts'
import { migrationStatements } from './migration-statements.ts'
import { MIGRATIONS } from './migrations.gen.ts'
import { migrations } from './schema-revision.ts'

/** Short enough for several renewals to fail before the lock expires after 30 s (`migration-statements.ts`). */
const RENEWAL_MS = 5000

/** A lock that lets only one service at a time change the tables. */
export interface MigrationLock {
  /** Called before each statement. @throws {TransactionConflictError} when the lock is no longer held. */
  readonly confirm: () => Promise<void>
  readonly release: () => Promise<void>
}

/**
 * Returns whether several nodes accept writes. If so, a lock of one server does not exclude callers on the other nodes.
 */
export async function isCluster(run: RunStatement, tables: Tables): Promise<boolean> {
  const { rows } = await run(migrationStatements(tables).cluster)
  const settings = new Map(
    rows.map((row) => [columns.text(row, 'Variable_name'), columns.text(row, 'Value')]),
  )
  return settings.get('wsrep_on') === 'ON' || settings.get('group_replication_single_primary_mode') === 'OFF'
}

/**
 * Takes a lock that belongs to the connection and is named after this database and prefix. The lock ends no later than
 * the connection.
 */
export async function lockServer({ run, place: tables, signal }: Migrating<Tables>): Promise<MigrationLock> {
  const sql = migrationStatements(tables)
  const { rows } = await run(sql.database)
  const scope = JSON.stringify([columns.text(rows[0], 'name'), tables.prefix])
  const name = `txbox.migrate ${createHash('sha256').update(scope).digest('hex').slice(0, 40)}`
  await untilTaken(async () => {
    const answer = await run(fill(sql.lock, [name]))
    return columns.flag(answer.rows[0], 'locked')
  }, signal)
  return {
    confirm: async () => undefined,
    release: async () => void (await run(fill(sql.unlock, [name]))),
  }
}

/** Takes a lock that is stored in a row, on which all nodes agree. The lock of a caller that has crashed expires. */
export async function lockCluster(work: Migrating<Tables>): Promise<MigrationLock> {
  const { run, runApart, place: tables, signal } = work
  const sql = migrationStatements(tables)
  const owner = `lock ${randomUUID()}`
  /**
   * Commits explicitly, because connections may not commit by themselves. On a cluster, it is the COMMIT that detects a
   * conflict.
   */
  const commit = async (text: string): Promise<number> => {
    const { affected } = await run(text)
    await run(sql.commit)
    return affected
  }
  await untilTaken(async () => {
    try {
      await commit(fill(sql.take, [owner, owner, owner]))
      const { rows } = await run(sql.holder)
      await run(sql.commit)
      return rows[0] !== undefined && columns.text(rows[0], 'holder') === owner
    } catch (error) {
      if (numberOf(error) === NO_TABLE) await run(createTable(tables))
      else if (!isConflict(error)) throw error
      await run(sql.rollback)
      return false
    }
  }, signal)

  const renewal = fill(sql.renew, [owner])
  let renewing = false
  // A renewal in the background, because a statement may take longer than the lock lasts. A failed renewal is detected
  // by the next `confirm`.
  const timer = setInterval(() => {
    if (renewing) return
    renewing = true
    void runApart(renewal)
      .catch(() => undefined)
      .finally(() => (renewing = false))
  }, RENEWAL_MS)
  return {
    async confirm() {
      if ((await commit(renewal)) === 1) return
      throw new TransactionConflictError(
        'migrating the tables: the lock expired, and another service took it.',
      )
    },
    async release() {
      clearInterval(timer)
      await run(sql.rollback)
      await commit(fill(sql.release, [owner]))
    },
  }
}

/** The first statement of all creates the table of the migrations. */
function createTable(tables: Tables): string {
  return migrations.statementsOf(MIGRATIONS[0]!.sql, tables)[0]!
}
