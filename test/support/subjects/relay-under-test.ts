import { onTestFinished } from 'vitest'
import { createOutbox, type Outbox } from '@txbox/outbox'
import { createRelay, type Publisher, type Relay, type RelayEvents, type RelayOptions } from '@txbox/relay'
import { portsKey, type NewMessage } from '@txbox/core'
import type { ConnectedPorts, LeaseStore, RelayStore } from '@txbox/core/ports'
import type { OpenTransaction, Root } from '../engines/target.ts'
import { until } from '../worlds/until.ts'

export type EventName = keyof RelayEvents
const EVENTS: readonly EventName[] = [
  'published',
  'parked',
  'dead-lettered',
  'unavailable',
  'lease-acquired',
  'lease-lost',
  'error',
]

/** A database on which some calls of a relay's store, or of its leases, do something else. */
export function withRelayStore(
  { database }: Pick<Root, 'database'>,
  alter: (inner: RelayStore) => Partial<RelayStore>,
  alterLeases: (inner: LeaseStore) => Partial<LeaseStore> = () => ({}),
): Pick<Root, 'database'> {
  const ports = database[portsKey]
  const ownPorts: Partial<ConnectedPorts> = {
    checkSchema: () => ports.checkSchema(),
    leases: () => {
      const inner = ports.leases()
      return {
        acquire: (names, request) => inner.acquire(names, request),
        renew: (leases, ttlMs) => inner.renew(leases, ttlMs),
        release: (leases, cutOff) => inner.release(leases, cutOff),
        holders: (prefix) => inner.holders(prefix),
        sweep: (prefix, olderThanMs) => inner.sweep(prefix, olderThanMs),
        close: () => inner.close(),
        ...alterLeases(inner),
      }
    },
    relay: (options) => {
      const inner = ports.relay(options)
      return {
        get generation() {
          return inner.generation
        },
        readSuspect: (shard, limits) => inner.readSuspect(shard, limits),
        suspectParked: (lease, shard, places) => inner.suspectParked(lease, shard, places),
        note: (lease, inFlight) => inner.note(lease, inFlight),
        survived: (lease) => inner.survived(lease),
        healKeys: (lease, shard) => inner.healKeys(lease, shard),
        read: (shard, limits) => inner.read(shard, limits),
        readDue: (lease, shard, limits) => inner.readDue(lease, shard, limits),
        work: (shards) => inner.work(shards),
        settle: (...settled) => inner.settle(...settled),
        settleParked: (...settled) => inner.settleParked(...settled),
        ...alter(inner),
      }
    },
  }
  return { database: { engine: database.engine, [portsKey]: ownPorts } as never }
}

/**
 * A database on which a statement without an answer counts as failed after this many milliseconds, not after the time
 * that the relay requests, so that a test need not wait that long. `asked` receives the requested time.
 */
export function withStatementTimeout(
  { database }: Pick<Root, 'database'>,
  statementTimeoutMs: number,
  asked: (statementTimeoutMs: number) => void,
): Pick<Root, 'database'> {
  const ports = database[portsKey]
  const shorter: Partial<ConnectedPorts> = {
    checkSchema: () => ports.checkSchema(),
    leases: () => ports.leases({ statementTimeoutMs }),
    relay: (options) => {
      asked(options.statementTimeoutMs)
      return ports.relay({ statementTimeoutMs })
    },
  }
  return { database: { engine: database.engine, [portsKey]: shorter } as never }
}

/** A relay that polls often, so that tests are quick, and records its events. It is stopped at the end of the test. */
export class RelayUnderTest {
  readonly relay: Relay
  readonly #events = new Map<EventName, unknown[]>()

  constructor(root: Pick<Root, 'database'>, publisher: Publisher, options: Partial<RelayOptions> = {}) {
    this.relay = createRelay({
      database: root.database,
      publisher,
      pollIntervalMs: { min: 2, max: 20 },
      // A renewal that a busy machine delays must not cost a lease. The pause between two rounds is a second with any longer lease.
      leaseMs: 15_000,
      ...options,
    })
    for (const name of EVENTS) {
      const heard: unknown[] = []
      this.#events.set(name, heard)
      this.relay.on(name, (event: unknown) => void heard.push(event))
    }
    onTestFinished(() => this.relay.stop({ timeoutMs: 500 }))
  }

  /** Creates and starts a relay. */
  static async started(
    root: Pick<Root, 'database'>,
    publisher: Publisher,
    options: Partial<RelayOptions> = {},
  ): Promise<RelayUnderTest> {
    const subject = new RelayUnderTest(root, publisher, options)
    await subject.relay.start()
    return subject
  }

  /** The events so far. */
  heard<E extends EventName>(name: E): readonly RelayEvents[E][] {
    return [...(this.#events.get(name) ?? [])] as RelayEvents[E][]
  }

  /** Resolves when an event has been emitted this many times. */
  async hears(name: EventName, times = 1, limitMs?: number): Promise<void> {
    await until(
      async () => this.heard(name).length >= times,
      () => `${times} × '${name}'; there are ${this.heard(name).length}. ${this.describeErrors()}`,
      limitMs,
    )
  }

  describeErrors(): string {
    return `Errors: ${[...new Set(this.heard('error').map(({ error }) => String(error)))].join('; ')}`
  }
}

/** Publishes each message by a separate call, all in one transaction. @returns their ids */
export async function publishAll(root: Root, messages: readonly NewMessage[]): Promise<string[]> {
  const transaction = await root.begin()
  const ids = await publishIn(root, transaction, messages)
  await transaction.commit()
  return ids
}

/** Publishes all messages by one call, for tests with many messages. @returns their ids */
export async function publishTogether(root: Root, messages: readonly NewMessage[]): Promise<string[]> {
  const transaction = await root.begin()
  const stored = await outboxOf(root).publish(transaction.tx, messages)
  await transaction.commit()
  return stored.map(({ id }) => id)
}

/** Like `publishAll`, in a transaction that the caller ends. */
export async function publishIn(
  root: Root,
  transaction: OpenTransaction,
  messages: readonly NewMessage[],
): Promise<string[]> {
  const outbox = outboxOf(root)
  const ids: string[] = []
  for (const message of messages) ids.push((await outbox.publish(transaction.tx, message)).id)
  return ids
}

export function outboxOf(root: Root): Outbox {
  return createOutbox({ database: root.database })
}

/** Messages of one key, numbered in the payload. */
export function messagesOf(key: string | undefined, count: number, from = 1): NewMessage[] {
  return Array.from({ length: count }, (_, n) => ({
    topic: 'test',
    key,
    payload: { key: key ?? null, n: from + n },
  }))
}
