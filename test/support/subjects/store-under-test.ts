import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import type {
  BacklogMessage,
  Lease,
  LeaseStore,
  Refusal,
  RelayStore,
  OutboxSettlement,
} from '@txbox/core/ports'
import { connectedPortsOf } from '@txbox/core/internal'
import type { OutboxTarget } from '../engines/outbox-target.ts'
import type { Root, Target } from '../engines/target.ts'

/** The place of the messages of a `StoreUnderTest`. */
export const SHARD = 3

export const LIMITS = { messages: 100, bytes: 1_000_000 }

/** A settlement without messages. */
const NOTHING: OutboxSettlement = { accepted: [], refused: [], behind: [] }

/** The ports that a relay uses, without a relay: one lease of one shard. */
export class StoreUnderTest {
  readonly store: RelayStore
  readonly leases: LeaseStore
  readonly #target: Target
  readonly #outbox: OutboxTarget
  #lease: Lease | undefined

  constructor(
    root: Pick<Root, 'database'>,
    target: Target,
    outbox: OutboxTarget,
    statementTimeoutMs = 10_000,
  ) {
    const ports = connectedPortsOf('test', root.database)
    this.store = ports.relay({ statementTimeoutMs })
    this.leases = ports.leases()
    this.#target = target
    this.#outbox = outbox
    onTestFinished(() => this.leases.close())
  }

  get lease(): Lease {
    if (this.#lease === undefined) throw new Error('The lease is taken first.')
    return this.#lease
  }

  async takeLease(owner = 'a'): Promise<Lease> {
    const [lease] = await this.leases.acquire([`outbox/0${SHARD}`], { owner, ttlMs: 60_000, limit: 1 })
    this.#lease = lease
    return this.lease
  }

  table(name: 'outbox' | 'parked' | 'leases'): string {
    return this.#target.engine === 'postgres' ? `txbox.${name}` : `txbox_${name}`
  }

  /** Commits one message for each of these keys, in this order. @returns their ids */
  async publish(...keys: readonly (string | undefined)[]): Promise<readonly string[]> {
    const ids = keys.map(() => randomUUID())
    const column = this.#target.engine === 'postgres' ? 'key' : '`key`'
    const now = this.#target.engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
    const rows = keys.map(() => `(${SHARD}, ?, 'orders', ?, 'application/json', '{}', ?, ${now})`)
    await this.#outbox.sql(
      `insert into ${this.table('outbox')} (shard, id, topic, ${column}, content_type, headers, payload, created_at)
       values ${rows.join(', ')}`,
      keys.flatMap((key, index) => [ids[index], key ?? null, Buffer.from(`{"n":${index}}`)]),
    )
    return ids
  }

  read(): Promise<readonly BacklogMessage[]> {
    return this.store.read(SHARD, LIMITS)
  }

  readDue(): Promise<readonly BacklogMessage[]> {
    return this.store.readDue(this.lease, SHARD, LIMITS)
  }

  readSuspect(): Promise<BacklogMessage | undefined> {
    return this.store.readSuspect(SHARD, LIMITS)
  }

  async settle(settlement: Partial<OutboxSettlement>): Promise<void> {
    await this.store.settle(this.lease, SHARD, { ...NOTHING, ...settlement })
  }

  /** Refuses the first of these messages for this long, and lets the others wait behind it. */
  async park(
    [head, ...behind]: readonly BacklogMessage[],
    how: Partial<Refusal> = {},
    suspect = false,
  ): Promise<void> {
    await this.settle({
      refused: [refusal(head!, { suspect, ...how })],
      behind: behind.map((row) => ({ row, suspect })),
    })
  }
}

export function refusal(row: BacklogMessage, how: Partial<Refusal> = {}): Refusal {
  return {
    row,
    attempts: 1,
    error: 'refused',
    errors: undefined,
    retryInMs: 0,
    suspect: false,
    ...how,
  }
}

export function idsOf(messages: readonly BacklogMessage[]): readonly string[] {
  return messages.map(({ id }) => id)
}
