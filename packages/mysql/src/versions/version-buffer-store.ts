/*
 * MySQL and MariaDB return only the number of rows that a statement wrote, and report an existing key as an error;
 * PostgreSQL returns the rows.
 */
import type { Session } from '@txbox/core'
import type { VersionBufferStore, VersionChain } from '@txbox/core/ports'
import { BUFFERING, deadChange, sharedTransaction, waitingChange } from '@txbox/sql/stores'
import type { SqlResult } from '@txbox/sql/transactions'
import { columns } from '../connection/columns.ts'
import { DUPLICATE_KEY, numberOf } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { microseconds, type Value } from '../connection/literals.ts'
import { assertInTransaction, execute } from '../connection/session.ts'
import { versionBufferStatements } from './version-buffer-statements.ts'

type Store = VersionBufferStore
type Statements = ReturnType<typeof versionBufferStatements>

/** The tables of the version buffer in MySQL and MariaDB. {@link VersionBufferStore} documents the methods. */
export class MysqlVersionBufferStore implements VersionBufferStore {
  readonly #sql: Statements
  readonly transactionOf = sharedTransaction

  constructor(tables: Tables) {
    this.#sql = versionBufferStatements(tables)
  }

  readonly lock: Store['lock'] = async (session, chain, initial) => {
    await assertInTransaction(session)
    await this.#run(session, 'beginChain', [...keyOf(chain), initial])
    const { rows } = await this.#run(session, 'position', keyOf(chain))
    return { version: columns.bigint(rows[0], 'version'), waiting: columns.number(rows[0], 'waiting') }
  }

  readonly move: Store['move'] = async (session, chain, { from, to, waiting }) =>
    (await this.#run(session, 'move', [to, waiting, ...keyOf(chain), from])).affected !== 0

  readonly store: Store['store'] = async (session, chain, { from, to, kind, payload }) => {
    try {
      await this.#run(session, 'store', [...keyOf(chain), from, to, kind, Buffer.from(payload)])
      return undefined
    } catch (error) {
      if (numberOf(error) !== DUPLICATE_KEY) throw error
    }
    const { rows } = await this.#run(session, 'read', [...keyOf(chain), from])
    return { to: columns.bigint(rows[0], 'to_version'), dead: columns.flag(rows[0], 'dead') }
  }

  readonly waiting: Store['waiting'] = async (session, chain, { order, limit }) =>
    (await this.#run(session, order, [...keyOf(chain), limit])).rows.map((row) => waitingChange(columns, row))

  readonly overdue: Store['overdue'] = async (session, chain, ageMs) => {
    const values = [...keyOf(chain), microseconds(ageMs)]
    return (await this.#run(session, 'overdue', values)).rows.map((row) => waitingChange(columns, row))
  }

  readonly bury: Store['bury'] = async (session, chain, from, reason) => {
    if (from.length > 0) await this.#run(session, 'bury', [reason, ...keyOf(chain), from])
  }

  readonly remove: Store['remove'] = async (session, chain, from, { dead }) => {
    if (from.length === 0) return 0
    const statement = dead ? 'removeDead' : 'removeWaiting'
    return (await this.#run(session, statement, [...keyOf(chain), from])).affected
  }

  readonly overdueKeys: Store['overdueKeys'] = async (session, consumer, ageMs, limit) => {
    const values = [Buffer.from(consumer), microseconds(ageMs), limit]
    return (await this.#run(session, 'overdueKeys', values)).rows.map((row) => columns.key(row, 'key'))
  }

  readonly dead: Store['dead'] = async (session, { consumer, key, after, limit }) => {
    const [ofKey, afterKey] = [key === undefined ? null : Buffer.from(key), Buffer.from(after?.key ?? '')]
    const values = [Buffer.from(consumer), ofKey, ofKey, afterKey, afterKey, after?.from ?? 0n, limit]
    return (await this.#run(session, 'dead', values)).rows.map((row) => deadChange(columns, row))
  }

  #run(session: Session, statement: keyof Statements, values: readonly Value[]): Promise<SqlResult> {
    return execute(session, BUFFERING, this.#sql[statement], values)
  }
}

function keyOf({ consumer, key }: VersionChain): readonly Value[] {
  return [Buffer.from(consumer), Buffer.from(key)]
}
