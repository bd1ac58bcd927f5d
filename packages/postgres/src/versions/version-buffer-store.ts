/*
 * PostgreSQL returns the rows that a statement wrote; MySQL and MariaDB return only their number, and report an
 * existing key as an error.
 */
import type { Session } from '@txbox/core'
import type { VersionBufferStore } from '@txbox/core/ports'
import { BUFFERING, deadChange, sharedTransaction, waitingChange, type Row } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { execute } from '../connection/session.ts'
import { versionBufferStatements } from './version-buffer-statements.ts'

type Store = VersionBufferStore
type Statements = ReturnType<typeof versionBufferStatements>

export class PostgresVersionBufferStore implements VersionBufferStore {
  readonly #sql: Statements
  readonly transactionOf = sharedTransaction

  constructor(schema: string) {
    this.#sql = versionBufferStatements(schema)
  }

  readonly lock: Store['lock'] = async (session, { consumer, key }, initial) => {
    const [row] = await this.#rows(session, 'lock', [consumer, key, String(initial)])
    return { version: columns.bigint(row, 'version'), waiting: columns.number(row, 'waiting') }
  }

  readonly move: Store['move'] = async (session, { consumer, key }, { from, to, waiting }) => {
    const values = [consumer, key, String(from), String(to), waiting]
    return (await this.#rows(session, 'move', values)).length > 0
  }

  readonly store: Store['store'] = async (session, { consumer, key }, { from, to, kind, payload }) => {
    const values = [consumer, key, String(from), String(to), kind, payload]
    for (;;) {
      const [stored] = await this.#rows(session, 'store', values)
      if (stored !== undefined) return undefined
      const [found] = await this.#rows(session, 'read', values.slice(0, 3))
      // A garbage collector does not take the lock of the chain, so it may have removed a dead letter in between.
      if (found !== undefined)
        return { to: columns.bigint(found, 'to_version'), dead: columns.flag(found, 'dead') }
    }
  }

  readonly waiting: Store['waiting'] = async (session, { consumer, key }, { order, limit }) =>
    (await this.#rows(session, order, [consumer, key, limit])).map((row) => waitingChange(columns, row))

  readonly overdue: Store['overdue'] = async (session, { consumer, key }, ageMs) =>
    (await this.#rows(session, 'overdue', [consumer, key, ageMs])).map((row) => waitingChange(columns, row))

  readonly bury: Store['bury'] = async (session, { consumer, key }, from, reason) => {
    await this.#rows(session, 'bury', [consumer, key, from.map(String), reason])
  }

  readonly remove: Store['remove'] = async (session, { consumer, key }, from, { dead }) => {
    const values = [consumer, key, from.map(String), dead ? 'dead' : 'waiting']
    return (await this.#rows(session, 'remove', values)).length
  }

  readonly overdueKeys: Store['overdueKeys'] = async (session, consumer, ageMs, limit) =>
    (await this.#rows(session, 'overdueKeys', [consumer, ageMs, limit])).map((row) => columns.key(row, 'key'))

  readonly dead: Store['dead'] = async (session, { consumer, key, after, limit }) => {
    const values = [consumer, key ?? null, after?.key ?? '', String(after?.from ?? 0), limit]
    return (await this.#rows(session, 'dead', values)).map((row) => deadChange(columns, row))
  }

  async #rows(session: Session, call: keyof Statements, values: readonly unknown[]): Promise<readonly Row[]> {
    return (await execute(session, BUFFERING, this.#sql[call], values)).rows
  }
}
