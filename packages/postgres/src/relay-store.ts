import {
  LeaseLostError,
  type BacklogMessage,
  type Lease,
  type ParkedSettlement,
  type ReadLimits,
  type Refusal,
  type RelayStore,
  type Settlement,
  type ShardWork,
} from '@txbox/core'
import { isLarge, toMessages, type Row } from './backlog-message.ts'
import { CopiedMessages } from './copied-messages.ts'
import { binaryAddresses, binaryArray, textAddresses, textArray } from './integer-arrays.ts'
import type { parkedStatements } from './parked-statements.ts'
import { withIntegers, type relayStatements } from './relay-statements.ts'
import { copyAlone, runAlone, type CopyOut, type Source } from './run-alone.ts'
import { ScanStarts, type OpenWriter, type Scan } from './scan-start.ts'

const READING = 'reading the outbox'
const SETTLING = 'settling messages'

/** The outbox table of PostgreSQL and that of parked messages, for the relay. The contract is that of the port. */
export class PostgresRelayStore implements RelayStore {
  readonly #sql: ReturnType<typeof relayStatements>
  readonly #parked: ReturnType<typeof parkedStatements>
  readonly #source: Source
  readonly #starts = new ScanStarts(() => this.#openWriters())
  readonly #copyOut: CopyOut | undefined
  /** Shards whose last read had payloads that are too large to come along. */
  readonly #large = new Set<number>()

  constructor(
    statements: ReturnType<typeof relayStatements>,
    parked: ReturnType<typeof parkedStatements>,
    source: Source,
  ) {
    this.#sql = statements
    this.#parked = parked
    this.#source = source
    this.#copyOut = source.root.copyOut?.(source.db)
  }

  async read(shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const scan = await this.#starts.begin(shard)
    const start = this.#starts.of(shard)
    const copied = await this.#copyOldest(shard, limits, scan)
    if (copied !== undefined) {
      start.end(scan, copied[0]?.seq, copied.at(-1)?.seq)
      return copied
    }
    const values = [shard, limits.messages, inlineBytes(limits), String(scan.from)]
    const rows = await this.#read(this.#sql.read, values)
    start.end(scan, numberOf(rows[0]), numberOf(rows.at(-1)))
    if (!rows.some(isLarge)) this.#large.delete(shard)
    return toMessages(rows, shard, limits.bytes, (seqs) =>
      this.#read(this.#sql.readPayloads, [shard, textArray(seqs)]),
    )
  }

  /** `undefined`: it cannot be copied, or some payloads are too large to come along. */
  async #copyOldest(
    shard: number,
    limits: ReadLimits,
    { from }: Scan,
  ): Promise<readonly BacklogMessage[] | undefined> {
    if (this.#copyOut === undefined || this.#large.has(shard)) return undefined
    const values = [shard, limits.messages, inlineBytes(limits), from]
    const { messages, hasLarge } = await copyAlone(
      this.#source,
      this.#copyOut,
      READING,
      withIntegers(this.#sql.copy, values),
      () => new CopiedMessages(shard),
    )
    if (!hasLarge) return messages
    this.#large.add(shard)
    return undefined
  }

  async readDue(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly BacklogMessage[]> {
    const heads = await this.#heads(lease, shard, limits)
    // One that was never tried has been released after its predecessor: those behind it may go along.
    const onward = heads.filter((row) => row['order_key'] !== null && row['attempts'] === '0')
    const alone = heads.filter((row) => !onward.includes(row))
    const mostBytes = inlineBytes(limits)
    const rows = [
      ...(alone.length === 0
        ? []
        : await this.#read(this.#parked.readAlone, [textArray(placesOf(alone)), mostBytes])),
      ...(onward.length === 0
        ? []
        : withoutLater(
            await this.#read(this.#parked.readOnward, [
              shard,
              onward.map((row) => row['order_key']),
              textArray(placesOf(onward)),
              Math.ceil(limits.messages / onward.length),
              mostBytes,
            ]),
          )),
    ]
    return toMessages(rows, shard, limits.bytes, (places) =>
      this.#read(this.#parked.readPayloads, [textArray(places)]),
    )
  }

  /** What is due and comes first in its key. What does not is put back into the line behind its predecessor. */
  async #heads(lease: Lease, shard: number, limits: ReadLimits): Promise<readonly Row[]> {
    for (;;) {
      const due = await this.#read(this.#parked.due, [shard, limits.messages])
      const heads = due.filter((row) => row['first'] === null || row['first'] === row['place'])
      if (heads.length === due.length) return due
      const following = due.filter((row) => !heads.includes(row))
      const values = [...fence(lease), textArray(placesOf(following))]
      await this.#settle(lease, this.#parked.follow, values)
      if (heads.length > 0) return heads
    }
  }

  async settle(lease: Lease, shard: number, settlement: Settlement): Promise<void> {
    const { accepted, refused, behind } = settlement
    const seqs = accepted.map(({ seq }) => seq)
    if (refused.length + behind.length === 0) {
      // In the outbox each has an address.
      const addresses = accepted.map(({ address }) => address!)
      // The library whose COPY we know sends bytes as they are.
      const rows =
        this.#copyOut === undefined
          ? [textArray(seqs), textAddresses(addresses)]
          : [binaryArray(seqs), binaryAddresses(addresses)]
      const values = [...fence(lease), shard]
      const { affected } = await runAlone(this.#source, SETTLING, this.#sql.settle, [...values, ...rows])
      if (affected !== accepted.length) {
        await this.#settle(lease, this.#sql.settleByNumber, [...values, rows[0]])
      }
    } else {
      const waiting = behind.map((seq) => ({ seq, attempts: 0, error: null, retryInMs: undefined }))
      await this.#settle(lease, this.#sql.settleAndPark, [
        ...fence(lease),
        shard,
        textArray(seqs),
        ...columnsOf([...refused, ...waiting], (_, index) => index < refused.length),
      ])
    }
    this.#starts.of(shard).deleted(accepted.length + refused.length + behind.length)
  }

  async settleParked(lease: Lease, shard: number, settlement: ParkedSettlement): Promise<void> {
    const { accepted, refused, released } = settlement
    await this.#settle(lease, this.#parked.settle, [
      ...fence(lease),
      textArray(accepted),
      ...columnsOf(refused, () => true),
      released.map(({ key }) => key),
      textArray(released.map(({ after }) => after)),
      shard,
    ])
  }

  async work(shards: readonly number[]): Promise<readonly ShardWork[]> {
    const { rows } = await runAlone(this.#source, 'looking for a backlog', this.#sql.work, [
      shards,
      textArray(shards.map((shard) => this.#starts.of(shard).from())),
    ])
    return rows.map((row) => ({ shard: Number(row['shard']), due: row['due'] === 'true' }))
  }

  async #openWriters(): Promise<readonly OpenWriter[]> {
    const rows = await this.#read(this.#sql.openWriters, [])
    return rows.map((row) => ({ writer: row['writer'] as string, prepared: row['prepared'] === 'true' }))
  }

  async #read(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    return (await runAlone(this.#source, READING, text, values)).rows
  }

  async #settle(lease: Lease, text: string, values: readonly unknown[]): Promise<void> {
    const { rows } = await runAlone(this.#source, SETTLING, text, values)
    if (rows.length > 0) return
    throw new LeaseLostError(
      `The lease '${lease.name}' of term ${lease.term} is no longer held by '${lease.owner}': what it published last was ` +
        'not settled and will be published again, with the same ids, by the new owner.',
    )
  }
}

/** With this bound on each payload that comes along, all of them together stay within `bytes`. */
function inlineBytes(limits: ReadLimits): number {
  return Math.floor(limits.bytes / limits.messages)
}

function numberOf(row: Row | undefined): bigint | undefined {
  return row === undefined ? undefined : BigInt(row['seq'] as string)
}

function fence({ name, owner, term }: Lease): readonly unknown[] {
  return [name, owner, String(term)]
}

function placesOf(rows: readonly Row[]): readonly string[] {
  return rows.map((row) => row['place'] as string)
}

/** `isRefused`: one without another attempt is dead; any other only waits. */
function columnsOf(
  verdicts: readonly (Omit<Refusal, 'error'> & { readonly error: string | null })[],
  isRefused: (verdict: unknown, index: number) => boolean,
): readonly unknown[] {
  return [
    textArray(verdicts.map(({ seq }) => seq)),
    verdicts.map(({ attempts }) => attempts),
    verdicts.map(({ retryInMs }) => retryInMs ?? null),
    verdicts.map((verdict, index) => isRefused(verdict, index) && verdict.retryInMs === undefined),
    verdicts.map(({ error }) => error),
  ]
}

/** Of each key no more than what comes before one that has to wait longer. */
function withoutLater(rows: readonly Row[]): readonly Row[] {
  const stopped = new Set<unknown>()
  return rows.filter((row) => {
    if (row['later'] === 'true') stopped.add(row['key'])
    return !stopped.has(row['key'])
  })
}
