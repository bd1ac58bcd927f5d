/* MySQL and MariaDB count what a statement wrote, and report a key that exists as an error; PostgreSQL returns it. */
import type {
  ChainPosition,
  ChainStep,
  DeadChange,
  Session,
  VersionBufferStore,
  VersionChain,
  WaitingChange,
} from '@txbox/core'
import {
  BUFFERING,
  connectionOf,
  deadChange,
  waitingChange,
  type Resolver,
  type Row,
  type SqlResult,
} from '@txbox/sql'
import { columns } from './columns.ts'
import { DUPLICATE_KEY, errors, numberOf } from './errors.ts'
import type { Value } from './literals.ts'
import { assertInTransaction, execute } from './session.ts'
import type { versionBufferStatements } from './version-buffer-statements.ts'

type Statements = ReturnType<typeof versionBufferStatements>

/** The tables of the version buffer in MySQL and MariaDB. {@link VersionBufferStore} documents the methods. */
export class MysqlVersionBufferStore implements VersionBufferStore {
  readonly #sql: Statements
  readonly #resolver: Resolver

  constructor(statements: Statements, resolver: Resolver) {
    this.#sql = statements
    this.#resolver = resolver
  }

  connectionOf(handle: unknown): Promise<object> {
    return connectionOf(handle, this.#resolver, errors)
  }

  async lock(session: Session, chain: VersionChain, initial: bigint): Promise<ChainPosition> {
    await assertInTransaction(session)
    await this.#run(session, 'beginChain', [...keyOf(chain), initial])
    const { rows } = await this.#run(session, 'position', keyOf(chain))
    return { version: columns.bigint(rows[0], 'version'), waiting: columns.number(rows[0], 'waiting') }
  }

  async move(session: Session, chain: VersionChain, { from, to, waiting }: ChainStep): Promise<boolean> {
    return (await this.#run(session, 'move', [to, waiting, ...keyOf(chain), from])).affected !== 0
  }

  async store(
    session: Session,
    chain: VersionChain,
    { from, to, kind, payload }: WaitingChange,
  ): Promise<{ to: bigint; dead: boolean } | undefined> {
    try {
      await this.#run(session, 'store', [...keyOf(chain), from, to, kind, Buffer.from(payload)])
      return undefined
    } catch (error) {
      if (numberOf(error) !== DUPLICATE_KEY) throw error
    }
    const { rows } = await this.#run(session, 'read', [...keyOf(chain), from])
    return { to: columns.bigint(rows[0], 'to_version'), dead: columns.flag(rows[0], 'dead') }
  }

  async waiting(
    session: Session,
    chain: VersionChain,
    { order, limit }: { order: 'first' | 'last'; limit: number },
  ): Promise<readonly WaitingChange[]> {
    return (await this.#run(session, order, [...keyOf(chain), limit])).rows.map(toChange)
  }

  async overdue(session: Session, chain: VersionChain, ageMs: number): Promise<readonly WaitingChange[]> {
    return (await this.#run(session, 'overdue', [...keyOf(chain), microseconds(ageMs)])).rows.map(toChange)
  }

  async bury(session: Session, chain: VersionChain, from: readonly bigint[], reason: string): Promise<void> {
    if (from.length > 0) await this.#run(session, 'bury', [reason, ...keyOf(chain), from])
  }

  async remove(
    session: Session,
    chain: VersionChain,
    from: readonly bigint[],
    { dead }: { dead: boolean },
  ): Promise<number> {
    if (from.length === 0) return 0
    const statement = dead ? 'removeDead' : 'removeWaiting'
    return (await this.#run(session, statement, [...keyOf(chain), from])).affected
  }

  async overdueKeys(
    session: Session,
    consumer: string,
    ageMs: number,
    limit: number,
  ): Promise<readonly string[]> {
    const values = [Buffer.from(consumer), microseconds(ageMs), limit]
    return (await this.#run(session, 'overdueKeys', values)).rows.map((row) => columns.key(row, 'key'))
  }

  async dead(
    session: Session,
    { consumer, key, after, limit }: Parameters<VersionBufferStore['dead']>[1],
  ): Promise<readonly DeadChange[]> {
    const only = key === undefined ? null : Buffer.from(key)
    const place = Buffer.from(after?.key ?? '')
    const values = [Buffer.from(consumer), only, only, place, place, after?.from ?? 0n, limit]
    const { rows } = await this.#run(session, 'dead', values)
    return rows.map((row) => deadChange(columns, row))
  }

  #run(session: Session, statement: keyof Statements, values: readonly Value[]): Promise<SqlResult> {
    return execute(session, BUFFERING, this.#sql[statement], values)
  }
}

function keyOf({ consumer, key }: VersionChain): readonly Value[] {
  return [Buffer.from(consumer), Buffer.from(key)]
}

function microseconds(ms: number): number {
  return Math.round(ms * 1000)
}

function toChange(row: Row): WaitingChange {
  return waitingChange(columns, row)
}
