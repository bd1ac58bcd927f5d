/*
 * MySQL and MariaDB read with plain queries, and settle in short transactions on JSON lists. PostgreSQL reads by COPY,
 * remembers where a scan starts, and settles in one statement.
 */
import {
  TransactionConflictError,
  type BacklogMessage,
  type BacklogRow,
  type Lease,
  type ParkedSettlement,
  type ReadLimits,
  type RelayStore,
  type Settlement,
  type ShardWork,
} from '@txbox/core'
import {
  SETTLING,
  dueMessages,
  inlineBytes,
  leaseLost,
  refused as refusalOf,
  toStamp,
  waiting,
  withinBytes,
  withoutLater,
  type Row,
} from '@txbox/sql'
import { toMessages, toStored, type StoredMessage } from './backlog-message.ts'
import { columns } from './columns.ts'
import { bytesOf, fill, type Value } from './literals.ts'
import type { parkedStatements } from './parked-statements.ts'
import { RelayServer } from './relay-server.ts'
import { RelaySettling, assertNone, fence, json } from './relay-settling.ts'
import type { relayStatements } from './relay-statements.ts'
import { rowOf } from './relay-verdicts.ts'
import { runBounded, type Source } from './run-alone.ts'
import type { ByEngine } from './server.ts'
import type { Run } from './short-transaction.ts'

/** The maximum number of branches of a statement, one for each released key. */
const MAX_BRANCHES = 100

/** The number of keys that are examined at a time. */
const HEAL_KEYS = 10_000

type Sql = ReturnType<typeof relayStatements>

/**
 * The outbox table and the table of parked messages on MySQL and MariaDB, for the relay. {@link RelayStore} documents
 * the methods.
 */
export class MysqlRelayStore implements RelayStore {
  readonly #statements: ByEngine<Sql>
  readonly #parked: ReturnType<typeof parkedStatements>
  readonly #source: Source
  readonly #settling: RelaySettling
  readonly #server = new RelayServer()
  /** The last examined key of each shard that has more keys. */
  readonly #healed = new Map<number, Buffer>()

  constructor(statements: ByEngine<Sql>, parked: ReturnType<typeof parkedStatements>, source: Source) {
    this.#statements = statements
    this.#parked = parked
    this.#source = source
    this.#settling = new RelaySettling(source, async () => (await this.#sql()).holdOn)
  }

  get generation(): number {
    return this.#server.generation
  }

  async read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const { read, readPayload } = await this.#sql()
    const values = [inlineBytes(limits), shard, shard, shard, limits.messages]
    const stored = (await this.#read(read, values)).map(toStored)
    this.#server.read(stored)
    return toMessages(fitting(stored, limits), shard, async ({ seq, stamp }) => {
      const [row] = await this.#read(readPayload, [shard, seq, stamp])
      return row?.['payload']
    })
  }

  async readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const { alone, onward } = await dueMessages(
      columns,
      () => this.#read(this.#parked.due, [shard, shard, shard, limits.messages]),
      (rows) => this.#follow(lease, rows),
    )
    const stored: StoredMessage[] = []
    if (alone.length > 0) stored.push(...(await this.#readAlone(alone, limits)))
    const branches = onward.slice(0, MAX_BRANCHES)
    if (branches.length > 0) stored.push(...(await this.#readOnward(shard, branches, limits)))
    return this.#toParked(stored, shard, limits)
  }

  async readSuspect(shard: number, limits: ReadLimits): Promise<BacklogMessage | undefined> {
    const found = await this.#read(this.#parked.findSuspect, [shard, shard])
    if (found.length === 0) return undefined
    const [suspect] = await this.#toParked(await this.#readAlone(found, limits), shard, limits)
    return suspect
  }

  async suspectParked(lease: Lease, shard: number, places: { from: bigint; to: bigint }): Promise<void> {
    await this.#settling.settle(lease, async (run) => {
      const { rows } = await run(this.#parked.unsuspected, [places.from, places.to, shard])
      await this.#settling.inPieces(
        run,
        this.#parked.suspect,
        rows.map((row) => columns.text(row, 'place')),
      )
    })
  }

  async settle(lease: Lease, shard: number, settlement: Settlement): Promise<void> {
    const { accepted, refused, behind } = settlement
    const verdicts = [...refused.map(refusalOf), ...behind.map(waiting)]
    if (verdicts.length === 0) return this.#settleAccepted(lease, shard, accepted)
    // The verdicts are in the order of the outbox, so that a message is parked before the messages behind it, even if
    // the list is split.
    verdicts.sort((a, b) => (a.row.seq < b.row.seq ? -1 : 1))
    const { park, remove, remaining } = await this.#sql()
    const kept = await this.#settling.settleTexts(lease, verdicts, async (run, texts) => {
      const parked = await this.#settling.inPieces(run, park, texts, [shard])
      const moved = await this.#settling.inPieces(
        run,
        remove,
        verdicts.map((verdict) => rowOf(verdict.row)),
        [shard],
      )
      if (parked !== moved) {
        throw new TransactionConflictError(
          `${parked} messages were parked, but ${moved} were deleted from the outbox: another session deletes messages there. ` +
            'Nothing was changed; the settlement is tried again.',
        )
      }
      const removed = await this.#settling.inPieces(run, remove, accepted.map(rowOf), [shard])
      if (moved + removed === verdicts.length + accepted.length) return 0
      return this.#settling.countOf(
        run,
        remaining,
        [...accepted, ...verdicts.map((verdict) => verdict.row)],
        [shard],
      )
    })
    assertNone(kept, accepted.length + verdicts.length, 'in the outbox')
  }

  async settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void> {
    const { accepted, refused, released } = settlement
    const { remove, keep, next, nextOfAll, release, remaining } = this.#parked
    const kept = await this.#settling.settleTexts(lease, refused.map(refusalOf), async (run, texts) => {
      const removed = await this.#settling.inPieces(run, remove, accepted.map(rowOf))
      await this.#settling.inPieces(run, keep, texts)
      for (let from = 0; from < released.length; from += MAX_BRANCHES) {
        const branches = released
          .slice(from, from + MAX_BRANCHES)
          .map(({ key }) => fill(next, [shard, Buffer.from(key)]))
        const { rows } = await run(nextOfAll(branches), [])
        const waits = rows.filter((row) => columns.flag(row, 'waits'))
        await this.#settling.inPieces(
          run,
          release,
          waits.map((row) => columns.text(row, 'place')),
        )
      }
      return removed === accepted.length ? 0 : this.#settling.countOf(run, remaining, accepted)
    })
    assertNone(kept, accepted.length, 'among the parked messages')
  }

  async note(lease: Lease, inFlight: string | undefined): Promise<boolean> {
    const { note, isHeld } = await this.#sql()
    const doing = 'recording messages in flight'
    const run: Run = (text, given) =>
      this.#settling.attempt(() => runBounded(this.#source, doing, text, given))
    const { affected } = await run(note, [inFlight ?? null, ...fence(lease)])
    // Some drivers count only rows that have changed, not all rows that were found.
    return affected > 0 || (await run(isHeld, fence(lease))).rows.length > 0
  }

  async survived(lease: Lease): Promise<void> {
    const { survived } = await this.#sql()
    await this.#settling.attempt(() =>
      runBounded(this.#source, 'resetting the crash count', survived, fence(lease)),
    )
  }

  async healKeys(lease: Lease, shard: number): Promise<number> {
    const { heads, release } = this.#parked
    return this.#settling.settle(lease, async (run) => {
      const after = this.#healed.get(shard) ?? Buffer.alloc(0)
      const { rows } = await run(heads, [shard, after, HEAL_KEYS])
      if (rows.length < HEAL_KEYS) this.#healed.delete(shard)
      else this.#healed.set(shard, bytesOf(rows.at(-1)!['order_key']))
      const waits = rows.filter((row) => columns.flag(row, 'waits'))
      const places = waits.map((row) => columns.text(row, 'place'))
      return this.#settling.inPieces(run, release, places)
    })
  }

  async work(shards: readonly number[]): Promise<readonly ShardWork[]> {
    if (shards.length === 0) return []
    const { hasBacklog, hasDue, onServer, work } = await this.#sql()
    const asked = shards.flatMap((shard) => [fill(hasBacklog, [shard, shard]), fill(hasDue, [shard, shard])])
    const server = fill(onServer, [this.#server.connections, this.#server.name])
    const rows = await this.#read(work([server, ...asked]), [])
    const found = new Map<number, boolean>()
    for (const [index, row] of rows.entries()) {
      const shard = columns.number(row, 'shard')
      if (index > 0) found.set(shard, found.get(shard) === true || columns.flag(row, 'due'))
      else this.#connected(shard, columns.optionalText(row, 'server'))
    }
    return [...found].map(([shard, due]) => ({ shard, due }))
  }

  #connected(connection: number, server: string | undefined): void {
    if (server !== undefined) this.#server.connected(connection, server)
  }

  async #follow(lease: Lease, rows: readonly Row[]): Promise<void> {
    const following = rows.map((row) => rowOf(rowNamedBy(row)))
    await this.#settling.settle(lease, (run) => this.#settling.inPieces(run, this.#parked.follow, following))
  }

  async #readAlone(rows: readonly Row[], limits: ReadLimits): Promise<readonly StoredMessage[]> {
    const values = [inlineBytes(limits), json(rows.map(rowNamedBy).map(rowOf))]
    return (await this.#read(this.#parked.readAlone, values)).map(toStored)
  }

  /** Of each key, the messages before the first one that has to wait longer. */
  async #readOnward(
    shard: number,
    heads: readonly Row[],
    limits: ReadLimits,
  ): Promise<readonly StoredMessage[]> {
    const most = Math.ceil(limits.messages / heads.length)
    const branches = heads.map((row) => {
      const { seq, stamp } = rowNamedBy(row)
      const key = bytesOf(row['order_key'])
      return fill(this.#parked.readOnward, [inlineBytes(limits), shard, key, seq, seq, stamp, most])
    })
    const stored = (await this.#read(this.#parked.readAllOnward(branches), [])).map(toStored)
    return withoutLater(
      stored,
      ({ key }) => key,
      ({ row }) => columns.has(row, 'later'),
    )
  }

  #toParked(
    stored: readonly StoredMessage[],
    shard: number,
    limits: ReadLimits,
  ): Promise<readonly BacklogMessage[]> {
    return toMessages(fitting(stored, limits), shard, async ({ seq, stamp }) => {
      const [row] = await this.#read(this.#parked.readPayload, [seq, stamp])
      return row?.['payload']
    })
  }

  async #settleAccepted(lease: Lease, shard: number, accepted: readonly BacklogRow[]): Promise<void> {
    const { settle, isHeld, remaining } = await this.#sql()
    const values = [shard, ...fence(lease)]
    const run: Run = (text, given) =>
      this.#settling.attempt(() => runBounded(this.#source, SETTLING, text, given))
    const removed = await this.#settling.inPieces(run, settle, accepted.map(rowOf), values)
    if (removed === accepted.length) return
    if ((await run(isHeld, fence(lease))).rows.length === 0) throw leaseLost(lease)
    assertNone(
      await this.#settling.countOf(run, remaining, accepted, [shard]),
      accepted.length,
      'in the outbox',
    )
  }

  async #sql(): Promise<Sql> {
    return this.#statements[(await this.#source.server()).engine]
  }

  async #read(text: string, values: readonly Value[]): Promise<readonly Row[]> {
    return (await runBounded(this.#source, 'reading the outbox', text, values)).rows
  }
}

function rowNamedBy(row: Row): { readonly seq: bigint; readonly stamp: number } {
  return { seq: columns.bigint(row, 'place'), stamp: toStamp(columns.number(row, 'stamp')) }
}

function fitting(stored: readonly StoredMessage[], limits: ReadLimits): readonly StoredMessage[] {
  return withinBytes(stored, limits.bytes, ({ payloadBytes }) => payloadBytes)
}
