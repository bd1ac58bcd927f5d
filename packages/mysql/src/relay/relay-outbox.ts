/*
 * MySQL and MariaDB read with plain queries, and settle in short transactions on JSON lists. PostgreSQL reads by COPY,
 * remembers where a scan starts, and settles in one statement.
 */
import { TransactionConflictError } from '@txbox/core'
import type {
  BacklogMessage,
  BacklogRow,
  Lease,
  ReadLimits,
  OutboxSettlement,
  ShardWork,
} from '@txbox/core/ports'
import { SETTLING, inlineBytes, leaseLost, refused as refusalOf, waiting, type Row } from '@txbox/sql/stores'
import { toMessages, toMessageRow } from './backlog-message.ts'
import type { Tables } from '../connection/identifiers.ts'
import { columns } from '../connection/columns.ts'
import { fill, type Value } from '../connection/literals.ts'
import { RelayServer } from './relay-server.ts'
import { RelaySettling, assertNone, fence } from './relay-settling.ts'
import { fitting } from './parked-reads.ts'
import { relayStatements } from './relay-statements.ts'
import { rowOf } from './relay-verdicts.ts'
import { runBounded, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine, type ByEngine } from '../connection/server.ts'
import type { Run } from '../connection/short-transaction.ts'

type Sql = ReturnType<typeof relayStatements>

/** The outbox table on MySQL and MariaDB, for the relay. `RelayStore` documents the public methods. */
export abstract class RelayOutbox {
  protected readonly source: MysqlStatementRoot
  protected readonly settling: RelaySettling
  readonly #statements: ByEngine<Sql>
  readonly #server = new RelayServer()

  constructor(tables: Tables, source: MysqlStatementRoot) {
    this.#statements = byEngine(relayStatements, tables)
    this.source = source
    this.settling = new RelaySettling(source, async () => (await this.sql()).holdOn)
  }

  get generation(): number {
    return this.#server.generation
  }

  async work(shards: readonly number[]): Promise<readonly ShardWork[]> {
    if (shards.length === 0) return []
    const { hasBacklog, hasDue, onServer, work } = await this.sql()
    const asked = shards.flatMap((shard) => [fill(hasBacklog, [shard, shard]), fill(hasDue, [shard, shard])])
    const server = fill(onServer, [this.#server.connections, this.#server.name])
    const rows = await this.query(work([server, ...asked]), [])
    const found = new Map<number, boolean>()
    for (const [index, row] of rows.entries()) {
      const shard = columns.number(row, 'shard')
      if (index > 0) found.set(shard, found.get(shard) === true || columns.flag(row, 'due'))
      // The first row has the number of the connection, and its server unless that is known.
      else if (columns.has(row, 'server')) this.#server.connected(shard, columns.text(row, 'server'))
    }
    return [...found].map(([shard, due]) => ({ shard, due }))
  }

  async read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const { read, readPayload } = await this.sql()
    const values = [inlineBytes(limits), shard, shard, shard, limits.messages]
    const stored = (await this.query(read, values)).map(toMessageRow)
    this.#server.read(stored)
    return toMessages(fitting(stored, limits), shard, async ({ seq, stamp }) => {
      const [row] = await this.query(readPayload, [shard, seq, stamp])
      return row?.['payload']
    })
  }

  async settle(lease: Lease, shard: number, settlement: OutboxSettlement): Promise<void> {
    const { accepted, refused, behind } = settlement
    const verdicts = [...refused.map(refusalOf), ...behind.map(waiting)]
    if (verdicts.length === 0) return this.#settleAccepted(lease, shard, accepted)
    // The verdicts are in the order of the outbox, so that a message is parked before the messages behind it, even if
    // the list is split.
    verdicts.sort((a, b) => (a.row.seq < b.row.seq ? -1 : 1))
    const { park, remove, remaining } = await this.sql()
    const parkedRows = verdicts.map(({ row }) => row)
    const kept = await this.settling.settleTexts(lease, verdicts, async (run, texts) => {
      const parked = await this.settling.inPieces(run, park, texts, [shard])
      const moved = await this.settling.inPieces(run, remove, parkedRows.map(rowOf), [shard])
      if (parked !== moved) {
        throw new TransactionConflictError(
          `${parked} messages were parked, but ${moved} were deleted from the outbox: another session deletes messages there. ` +
            'Nothing was changed; the settlement is tried again.',
        )
      }
      const removed = await this.settling.inPieces(run, remove, accepted.map(rowOf), [shard])
      if (moved + removed === verdicts.length + accepted.length) return 0
      return this.settling.countOf(run, remaining, [...accepted, ...parkedRows], [shard])
    })
    assertNone(kept, accepted.length + verdicts.length, 'in the outbox')
  }

  async #settleAccepted(lease: Lease, shard: number, accepted: readonly BacklogRow[]): Promise<void> {
    const { settle, isHeld, remaining } = await this.sql()
    const values = [shard, ...fence(lease)]
    const run: Run = (text, given) =>
      this.settling.attempt(() => runBounded(this.source, SETTLING, text, given))
    const removed = await this.settling.inPieces(run, settle, accepted.map(rowOf), values)
    if (removed === accepted.length) return
    if ((await run(isHeld, fence(lease))).rows.length === 0) throw leaseLost(lease)
    const kept = await this.settling.countOf(run, remaining, accepted, [shard])
    assertNone(kept, accepted.length, 'in the outbox')
  }

  protected async sql(): Promise<Sql> {
    return this.#statements[(await this.source.server()).engine]
  }

  protected async query(text: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await runBounded(this.source, 'reading the outbox', text, values)).rows
  }
}
