import { within } from '@txbox/core/internal'
import type { SqlResult } from '../adapters.ts'
import type { OwnConnection, RootAdapter } from '../root-adapter.ts'
import { hasFunction } from '../members.ts'
import { noFreeConnection } from '../pool-waits.ts'
import { isSilent, suspectConnections } from './suspect-connections.ts'
import {
  compile,
  engineOf,
  isKysely,
  query,
  toSqlResult,
  type KyselyConnection,
  type KyselyLike,
} from './kysely.ts'
import { hiddenStatements } from './hidden-statements.ts'

interface KyselyRoot extends KyselyLike {
  readonly isTransaction: false
  transaction(): KyselyTransactionBuilder
  connection(): { execute<T>(work: (db: KyselyLike) => Promise<T>): Promise<T> }
}
interface KyselyTransactionBuilder {
  setIsolationLevel(isolation: string): KyselyTransactionBuilder
  execute<T>(work: (tx: KyselyLike) => Promise<T>): Promise<T>
}

export const kyselyRoot: RootAdapter<KyselyRoot> = {
  name: 'Kysely',
  checksCommit: false,
  recognises(root): root is KyselyRoot {
    return isKysely(root) && !root.isTransaction && hasFunction(root, 'connection')
  },
  maxConnections: () => undefined,
  query: queryWithin,
  connect(db) {
    return new Promise<OwnConnection>((resolve, reject) => {
      const open = (): void => {
        const held = db.connection().execute(async (connection) => {
          const underneath = await connection.getExecutor().provideConnection(async (own) => own)
          await whenItAnswers(db, underneath, open, async () => {
            await new Promise<void>((release) => {
              resolve({
                query: (text, values) => query(connection, text, values),
                release(broken) {
                  if (broken) giveUp(db, underneath)
                  release()
                },
                abandon: () => suspectConnections(db),
              })
            })
          })
        })
        held.catch(reject)
      }
      open()
    })
  },
  // There is no `connectApart`: an idle connection that Kysely has reserved for a caller has no listener for errors, so
  // that the process would end if the connection broke.
  transact(db, work, isolation) {
    const builder = isolation === undefined ? db.transaction() : db.transaction().setIsolationLevel(isolation)
    return builder.execute((tx) => work(tx, undefined))
  },
}

/**
 * Runs a statement on any connection, and discards the connection if it does not answer and the driver can discard it.
 * Other drivers keep the connection in use until it answers.
 */
function queryWithin(
  db: KyselyRoot,
  sql: string,
  parameters: readonly unknown[],
  timeoutMs: number,
): Promise<SqlResult> {
  let late = false
  let connection: KyselyConnection | undefined
  const answered = new Promise<SqlResult>((resolve, reject) => {
    const run = async (provided: KyselyConnection): Promise<void> => {
      // The connection was opened too late for this call, but can be used by others.
      if (late) return
      connection = provided
      resolve(toSqlResult(await provided.executeQuery(compile(sql, parameters))))
    }
    const open = (): void => {
      if (late) return
      db.getExecutor()
        .provideConnection((provided) => whenItAnswers(db, provided, open, () => run(provided)))
        .catch(reject)
    }
    open()
  })
  return within(answered, timeoutMs, () => {
    late = true
    if (connection === undefined) throw noFreeConnection(timeoutMs)
    giveUp(db, connection)
    // The same error as that of AbortSignal.timeout.
    throw new DOMException('The operation was aborted due to timeout', 'TimeoutError')
  })
}

async function whenItAnswers(
  db: KyselyRoot,
  connection: KyselyConnection,
  openAnother: () => void,
  work: () => Promise<void>,
): Promise<void> {
  let answer: Promise<unknown> | undefined
  const ask = (): Promise<unknown> => (answer = connection.executeQuery(compile(hiddenStatements.check, [])))
  if (!(await isSilent(db, ask))) return work()
  giveUp(db, connection)
  openAnother()
  // A connection that the driver cannot discard stays in use until it answers.
  await answer?.catch(() => undefined)
}

/**
 * Ends a connection on which a statement may still be in flight. Kysely's driver for MySQL then removes the connection
 * from the pool. The driver for PostgreSQL cannot: its `killSession` opens another connection, to a server that may not answer,
 * and without a listener for errors, so that a reset of this connection would end the process.
 */
function giveUp(db: KyselyRoot, connection: KyselyConnection): void {
  suspectConnections(db)
  if (engineOf(db) !== 'mysql') return
  connection.killSession?.(async () => undefined).catch(() => undefined)
}
