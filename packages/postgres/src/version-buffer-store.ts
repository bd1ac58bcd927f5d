/* PostgreSQL returns what a statement wrote; MySQL and MariaDB count it, and report a key that exists as an error. */
import type {
  ChainPosition,
  ChainStep,
  DeadChange,
  Session,
  VersionBufferStore,
  VersionChain,
  WaitingChange,
} from '@txbox/core'
import { BUFFERING, connectionOf, deadChange, waitingChange, type Resolver, type Row } from '@txbox/sql'
import { columns } from './columns.ts'
import { errors } from './errors.ts'
import { execute } from './session.ts'
import type { versionBufferStatements } from './version-buffer-statements.ts'

type Statements = ReturnType<typeof versionBufferStatements>

/** The tables of the version buffer in PostgreSQL. {@link VersionBufferStore} documents the methods. */
export class PostgresVersionBufferStore implements VersionBufferStore {
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
    const [row] = await this.#run(session, 'lock', [chain.consumer, chain.key, String(initial)])
    return { version: BigInt(row!['version'] as string), waiting: Number(row!['waiting']) }
  }

  async move(
    session: Session,
    { consumer, key }: VersionChain,
    { from, to, waiting }: ChainStep,
  ): Promise<boolean> {
    const values = [consumer, key, String(from), String(to), waiting]
    return (await this.#run(session, 'move', values)).length > 0
  }

  async store(
    session: Session,
    { consumer, key }: VersionChain,
    { from, to, kind, payload }: WaitingChange,
  ): Promise<{ to: bigint; dead: boolean } | undefined> {
    const values = [consumer, key, String(from), String(to), kind, payload]
    for (;;) {
      const [stored] = await this.#run(session, 'store', values)
      if (stored !== undefined) return undefined
      const [there] = await this.#run(session, 'read', values.slice(0, 3))
      // A collector does not take the lock of the chain: it may have removed a dead letter in between.
      if (there !== undefined)
        return { to: BigInt(there['to_version'] as string), dead: there['dead'] === 'true' }
    }
  }

  async waiting(
    session: Session,
    chain: VersionChain,
    { order, limit }: { order: 'first' | 'last'; limit: number },
  ): Promise<readonly WaitingChange[]> {
    return (await this.#run(session, order, [chain.consumer, chain.key, limit])).map(toChange)
  }

  async overdue(session: Session, chain: VersionChain, ageMs: number): Promise<readonly WaitingChange[]> {
    return (await this.#run(session, 'overdue', [chain.consumer, chain.key, ageMs])).map(toChange)
  }

  async bury(session: Session, chain: VersionChain, from: readonly bigint[], reason: string): Promise<void> {
    await this.#run(session, 'bury', [chain.consumer, chain.key, from.map(String), reason])
  }

  async remove(
    session: Session,
    chain: VersionChain,
    from: readonly bigint[],
    { dead }: { dead: boolean },
  ): Promise<number> {
    const values = [chain.consumer, chain.key, from.map(String), dead ? 'dead' : 'waiting']
    return (await this.#run(session, 'remove', values)).length
  }

  async overdueKeys(
    session: Session,
    consumer: string,
    ageMs: number,
    limit: number,
  ): Promise<readonly string[]> {
    const rows = await this.#run(session, 'overdueKeys', [consumer, ageMs, limit])
    return rows.map((row) => row['key'] as string)
  }

  async dead(
    session: Session,
    { consumer, key, after, limit }: Parameters<VersionBufferStore['dead']>[1],
  ): Promise<readonly DeadChange[]> {
    const place = [after?.key ?? '', String(after?.from ?? 0n)]
    const rows = await this.#run(session, 'dead', [consumer, key ?? null, ...place, limit])
    return rows.map((row) => deadChange(columns, row))
  }

  async #run(
    session: Session,
    statement: keyof Statements,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    return (await execute(session, BUFFERING, this.#sql[statement], values)).rows
  }
}

function toChange(row: Row): WaitingChange {
  return waitingChange(columns, row)
}
