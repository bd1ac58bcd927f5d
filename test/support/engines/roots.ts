import { setTimeout as pause } from 'node:timers/promises'
import { CompiledQuery, type Kysely, type Transaction } from 'kysely'
import type { ConnectedDatabase, TransactionHandle } from '@txbox/core'
import type { OpenTransaction, Root, Row } from './target.ts'

/** SQL through a handle of any kind. */
export type ExecOn = (
  tx: TransactionHandle,
  sql: string,
  parameters: readonly unknown[],
) => Promise<readonly Row[]>

/** The open transactions of a root. */
export class RootTransactions {
  readonly #open = new Set<OpenTransaction>()
  readonly #execOn: ExecOn

  constructor(execOn: ExecOn) {
    this.#execOn = execOn
  }

  /** `finish` ends the transaction and releases its connection. */
  add(tx: TransactionHandle, finish: (how: 'commit' | 'rollback') => Promise<void>): OpenTransaction {
    const settings = new Set<string>()
    const exec: OpenTransaction['exec'] = (sql, parameters = []) => {
      // A setting belongs to the connection, not to the transaction: the next user of the connection must not get it.
      const setting = /^set session (\w+) =/.exec(sql)?.[1]
      if (setting !== undefined) settings.add(setting)
      return this.#execOn(tx, sql, parameters)
    }
    const end = async (how: 'commit' | 'rollback'): Promise<void> => {
      this.#open.delete(transaction)
      for (const setting of settings) {
        await this.#execOn(tx, `set session ${setting} = default`, []).catch(() => undefined)
      }
      await finish(how)
    }
    const transaction: OpenTransaction = {
      tx,
      exec,
      savepoint: async (name) => void (await exec(`savepoint ${name}`)),
      rollbackTo: async (name) => void (await exec(`rollback to savepoint ${name}`)),
      commit: () => end('commit'),
      rollback: () => end('rollback'),
    }
    this.#open.add(transaction)
    return transaction
  }

  /**
   * Rolls back what a failed test has left open, the oldest transaction first. The transactions that have waited for it get
   * time to end by themselves: a rollback would make their work reject, although nobody waits for it any more.
   */
  async rollBackAll(): Promise<void> {
    for (const transaction of this.#open) {
      await transaction.rollback().catch(() => undefined)
      for (let waits = 0; this.#open.size > 0 && waits < 50; waits += 1) await pause(20)
    }
  }
}

/** A library whose transactions last as long as a callback. */
export interface CallbackLibrary {
  readonly db: object
  readonly database: ConnectedDatabase<TransactionHandle>
  readonly execOn: ExecOn
  readonly ready?: (() => Promise<void>) | undefined
  readonly transact: (work: (tx: object) => Promise<void>) => Promise<void>
  readonly close: () => Promise<void>
}

export function callbackRoot({ db, database, execOn, ready, transact, close }: CallbackLibrary): Root {
  const transactions = new RootTransactions(execOn)
  return {
    db,
    database,
    async ready() {
      await ready?.()
    },
    async begin() {
      await ready?.()
      // The callback waits until the test ends the transaction.
      const begun = Promise.withResolvers<object>()
      const end = Promise.withResolvers<'commit' | 'rollback'>()
      const rolledBack = new Error('rolled back')
      const ended = transact(async (tx) => {
        begun.resolve(tx)
        if ((await end.promise) === 'rollback') throw rolledBack
      }).catch((error: unknown) => {
        begun.reject(error)
        if (error !== rolledBack) throw error
      })
      ended.catch(() => undefined)
      return transactions.add((await begun.promise) as TransactionHandle, async (how) => {
        end.resolve(how)
        await ended
      })
    },
    rollBackAll: () => transactions.rollBackAll(),
    async close() {
      await transactions.rollBackAll()
      // A connection that a test has cut reports an error when it is closed.
      await close().catch(() => undefined)
    },
  }
}

/** A root of Kysely, on any database. */
export function kyselyRootOn(db: Kysely<object>, database: unknown, execOn: ExecOn): Root {
  return callbackRoot({
    db,
    database: database as ConnectedDatabase<TransactionHandle>,
    execOn,
    transact: (work) => db.transaction().execute(work),
    close: () => db.destroy(),
  })
}

export function isKysely(tx: object): tx is Transaction<object> {
  return 'isTransaction' in tx
}

export async function kyselyRows(
  tx: Transaction<object>,
  sql: string,
  parameters: readonly unknown[],
): Promise<readonly Row[]> {
  return (await tx.executeQuery<Row>(CompiledQuery.raw(sql, [...parameters]))).rows
}
