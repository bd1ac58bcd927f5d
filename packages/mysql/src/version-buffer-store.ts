import type {
  ChainPosition,
  ChainStep,
  DeadChange,
  Session,
  VersionBufferStore,
  VersionChain,
  WaitingChange,
} from '@txbox/core'
import { recogniseHandle, type SqlResult } from '@txbox/sql'
import { DUPLICATE_KEY, numberOf, translate } from './errors.ts'
import { textOf, type Value } from './literals.ts'
import { assertInTransaction, execute } from './session.ts'
import type { versionBufferStatements } from './version-buffer-statements.ts'

const BUFFERING = 'waiting for a predecessor in the version buffer'

type Row = Readonly<Record<string, unknown>>
type Statements = ReturnType<typeof versionBufferStatements>

/** The tables of the version buffer in MySQL and MariaDB. The contract is that of the port. */
export class MysqlVersionBufferStore implements VersionBufferStore {
  readonly #sql: Statements

  constructor(statements: Statements) {
    this.#sql = statements
  }

  async connectionOf(handle: unknown): Promise<object> {
    try {
      return (await recogniseHandle(handle, 'mysql').monitor(handle)) ?? (handle as object)
    } catch (error) {
      throw translate(error, BUFFERING)
    }
  }

  async lock(session: Session, chain: VersionChain, initial: bigint): Promise<ChainPosition> {
    await assertInTransaction(session)
    await this.#run(session, 'begin', [...keyOf(chain), initial])
    const { rows } = await this.#run(session, 'position', keyOf(chain))
    return { version: BigInt(textOf(rows[0]!['version'])), waiting: Number(textOf(rows[0]!['waiting'])) }
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
    return { to: BigInt(textOf(rows[0]!['to_version'])), dead: textOf(rows[0]!['dead']) === '1' }
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
    return (await this.#run(session, 'overdueKeys', values)).rows.map(nameOf)
  }

  async dead(
    session: Session,
    { consumer, key, after, limit }: Parameters<VersionBufferStore['dead']>[1],
  ): Promise<readonly DeadChange[]> {
    const only = key === undefined ? null : Buffer.from(key)
    const place = Buffer.from(after?.key ?? '')
    const values = [Buffer.from(consumer), only, only, place, place, after?.from ?? 0n, limit]
    const { rows } = await this.#run(session, 'dead', values)
    return rows.map(toDead)
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

function nameOf(row: Row): string {
  return Buffer.from(textOf(row['key']), 'hex').toString()
}

function toChange(row: Row): WaitingChange {
  return {
    from: BigInt(textOf(row['from_version'])),
    to: BigInt(textOf(row['to_version'])),
    kind: textOf(row['kind']),
    payload: textOf(row['payload']),
  }
}

function toDead(row: Row): DeadChange {
  return {
    ...toChange(row),
    key: nameOf(row),
    reason: textOf(row['reason']),
    receivedAt: new Date(Number(textOf(row['received_at']))),
    deadAt: new Date(Number(textOf(row['dead_at']))),
  }
}
