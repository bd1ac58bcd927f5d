import type { OutboxMessage, PublishResult, Publisher } from '@txbox/relay'
import { until } from './until.ts'

/** A message that the broker has received. A resend is another delivery. */
export interface Delivery {
  /** The relay that sent the message. */
  readonly owner: string
  /** The time of the delivery by the clock of this process, in milliseconds. */
  readonly at: number
  readonly message: OutboxMessage
}

/** A call of `publish`, as it happens. */
export interface PublishCall {
  readonly owner: string
  /** The number of the call; 1 for the first call of this owner. */
  readonly number: number
  readonly startedAt: number
  readonly messages: readonly OutboxMessage[]
  readonly signal: AbortSignal
  /** The broker receives this message. */
  accept(message: OutboxMessage): PublishResult
  /** The broker receives all messages of the call. */
  acceptAll(): PublishResult[]
}

export type Respond = (call: PublishCall) => Promise<readonly PublishResult[]> | readonly PublishResult[]

export const acceptAll: Respond = (call) => call.acceptAll()

/**
 * A broker in memory with an append-only log of the messages that it received. Each relay has a separate publisher.
 *
 * The broker checks every publisher: overlapping calls never contain messages of one key, and with ordering
 * `'none'` no call contains two messages of one key.
 */
export class Broker {
  readonly log: Delivery[] = []
  readonly calls: PublishCall[] = []
  readonly violations: string[] = []
  readonly #active = new Set<PublishCall>()

  publisher(
    options: { owner?: string; ordering?: 'none' | 'per-key'; respond?: Respond } = {},
  ): BrokerPublisher {
    return new BrokerPublisher(this, options)
  }

  /** The ids of all deliveries, resends included, in the order of arrival; of one key, if given. */
  ids(key?: string): string[] {
    return this.log.flatMap(({ message }) => (key === undefined || message.key === key ? [message.id] : []))
  }

  /** The ids as a consumer that drops duplicates sees them. */
  firstIds(key?: string): string[] {
    return [...new Set(this.ids(key))]
  }

  /** Resolves when this many different messages have arrived. */
  async received(count: number, limitMs?: number): Promise<void> {
    await until(
      async () => this.firstIds().length >= count,
      () => `${count} messages; there are ${this.firstIds().length}`,
      limitMs,
    )
  }

  async called(times: number, limitMs?: number): Promise<void> {
    await until(
      async () => this.calls.length >= times,
      () => `${times} calls of publish; there are ${this.calls.length}`,
      limitMs,
    )
  }

  begin(call: PublishCall, ordering: 'none' | 'per-key'): void {
    const keys = call.messages.flatMap(({ key }) => key ?? [])
    if (ordering === 'none' && new Set(keys).size < keys.length)
      this.violations.push(`twice in one call: ${keys.join()}`)
    for (const other of this.#active) {
      const both = other.messages.filter(({ key }) => key !== undefined && keys.includes(key))
      if (both.length > 0) this.violations.push(`in two calls at once: ${both.map(({ key }) => key).join()}`)
    }
    this.calls.push(call)
    this.#active.add(call)
  }

  end(call: PublishCall): void {
    this.#active.delete(call)
  }
}

export class BrokerPublisher implements Publisher {
  readonly ordering: 'none' | 'per-key'
  readonly owner: string
  /** The behavior of the publisher, which may be changed at any time. */
  respond: Respond
  closed = 0
  readonly #broker: Broker
  #calls = 0

  constructor(broker: Broker, options: { owner?: string; ordering?: 'none' | 'per-key'; respond?: Respond }) {
    this.#broker = broker
    this.owner = options.owner ?? 'relay'
    this.ordering = options.ordering ?? 'none'
    this.respond = options.respond ?? acceptAll
  }

  async publish(messages: readonly OutboxMessage[], { signal }: { signal: AbortSignal }) {
    const accept = (message: OutboxMessage): PublishResult => {
      this.#broker.log.push({ owner: this.owner, at: performance.now(), message })
      return { status: 'accepted' }
    }
    const call: PublishCall = {
      owner: this.owner,
      number: (this.#calls += 1),
      startedAt: performance.now(),
      messages,
      signal,
      accept,
      acceptAll: () => messages.map(accept),
    }
    this.#broker.begin(call, this.ordering)
    try {
      return await this.respond(call)
    } finally {
      this.#broker.end(call)
    }
  }

  async close(): Promise<void> {
    this.closed += 1
  }
}

/** The broker refuses this message. */
export function rejected(
  options: { retryable?: boolean; retryAfterMs?: number; error?: unknown } = {},
): PublishResult {
  const { retryable = true, retryAfterMs, error = new Error('refused') } = options
  return { status: 'rejected', error, retryable, ...(retryAfterMs !== undefined && { retryAfterMs }) }
}

/** Refuses the messages in the set, as long as they are in it, and accepts all others. */
export function refusing(ids: ReadonlySet<string>, options: { retryable: boolean }): Respond {
  return (call) =>
    call.messages.map((message) => (ids.has(message.id) ? rejected(options) : call.accept(message)))
}

/** Accepts all messages of a call when the gate is opened. */
export function holding(gate: Gate): Respond {
  return async (call) => {
    await gate.pass()
    return call.acceptAll()
  }
}

/** A gate that is closed until it is opened, with which tests stop a publisher in the middle of its work. */
export class Gate {
  readonly #opened = Promise.withResolvers<void>()
  #waiting = 0

  /** Resolves when the gate is opened. */
  async pass(): Promise<void> {
    this.#waiting += 1
    await this.#opened.promise
  }

  open(): void {
    this.#opened.resolve()
  }

  /** Resolves when this many calls have reached the gate. */
  async reached(count = 1): Promise<void> {
    await until(
      async () => this.#waiting >= count,
      () => `${count} at the gate; there are ${this.#waiting}`,
    )
  }
}
