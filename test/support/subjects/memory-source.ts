import type { Delivery, InboxMessage, OpenSource, Source, SourceTraits } from '@txbox/consumer'
import { until } from '../worlds/until.ts'

interface Stored {
  readonly message: InboxMessage
  readonly key: string | undefined
  readonly undecodable: unknown
  readonly isSuspect: boolean
  /** Counted deliveries. */
  count: number
  isRedelivered: boolean
  dueAt: number
}

/** The outcome of a delivery, in the order of the settlements. */
export interface Settled {
  readonly id: string
  readonly how: 'accept' | 'retry' | 'reject' | 'postpone'
  readonly delayMs?: number
  readonly counted?: boolean
  readonly deliveries?: number
  readonly error?: unknown
}

const TRAITS: SourceTraits = {
  delays: false,
  countsDeliveries: true,
  keepsRejected: true,
  ordersKeys: false,
  settlesInTransaction: false,
  leaseMs: undefined,
}

/**
 * A queue in memory that behaves like a broker: it delivers unsettled messages again, in their place, and counts the
 * deliveries; leases expire; the connection can break. It uses the clock of the process, so that fake timers work.
 */
export class MemorySource implements Source {
  readonly name = 'memory orders'
  readonly traits: SourceTraits
  readonly settled: Settled[] = []
  readonly rejected: InboxMessage[] = []
  readonly extensions: string[] = []
  /** The maximum number of deliveries that were in flight at the same time. */
  mostOut = 0
  /** How many deliveries each call of `receive` asked for. */
  readonly limits: number[] = []
  /** Calls of `settleIn`; each may throw. */
  settleIn: (tx: unknown, id: string) => Promise<void> = async () => undefined
  opened = 0
  /** Delivers as many messages as are requested, also several messages of a key at the same time. */
  isGenerous = false
  /** With the trait `'per-delivery'`: whether a redelivered message shows that deliveries are counted. */
  showsCounts = true
  /** Whether deliveries can be postponed, and whether the queue keeps them at the moment. */
  postpones: 'yes' | 'not now' | undefined
  /** Errors that the next calls of `open` throw. */
  readonly openFailures: unknown[] = []
  /** Called before an accept takes effect. */
  onAccept: (id: string, how: { recorded?: boolean | undefined }) => Promise<void> | void = () => undefined
  /** Called before a reject takes effect, and may throw. */
  onReject: (id: string) => Promise<void> | void = () => undefined
  #stored: Stored[] = []
  readonly #out = new Map<Stored, { readonly lost: AbortController; lease: NodeJS.Timeout | undefined }>()
  #failed: ((error: unknown) => void) | undefined
  #wakers = new Set<() => void>()
  #generation = 0

  constructor(traits: Partial<SourceTraits> = {}) {
    this.traits = { ...TRAITS, ...traits }
  }

  /** Waits until so many deliveries are accepted. */
  accepted(count: number): Promise<void> {
    return until(
      async () => this.settled.filter(({ how }) => how === 'accept').length >= count,
      () => `${count} deliveries are accepted; ${this.settled.length} were settled`,
      40_000,
    )
  }

  /** Sends a message. */
  send(
    id: string,
    options: {
      key?: string
      headers?: Record<string, string>
      payload?: unknown
      /** The id of the message. @default the name */
      messageId?: string
      type?: string
      time?: Date
      undecodable?: unknown
      count?: number
      isSuspect?: boolean
    } = {},
  ): void {
    const { key, headers, payload = id, messageId = id, type, time, undecodable } = options
    const { count = 0, isSuspect = false } = options
    this.#stored.push({
      message: {
        id: messageId,
        payload,
        ...(headers === undefined ? {} : { headers }),
        ...(type === undefined ? {} : { type }),
        ...(time === undefined ? {} : { time }),
      },
      key,
      undecodable,
      isSuspect,
      count,
      isRedelivered: count > 0,
      dueAt: -Infinity,
    })
    this.#wake()
  }

  /** Another process has made the message a dead letter, and an operator has redriven it. */
  redrive(id: string): void {
    for (const one of this.#stored)
      if (one.message.id === id) Object.assign(one, { count: 0, dueAt: -Infinity })
    this.#wake()
  }

  /** The ids of the messages that are in the queue, delivered or not. */
  get left(): string[] {
    return this.#stored.map(({ message }) => message.id)
  }

  get out(): number {
    return this.#out.size
  }

  how(id: string): string[] {
    return this.settled.filter((one) => one.id === id).map(({ how }) => how)
  }

  /** Breaks the connection: all messages in flight are delivered again. */
  cut(error: unknown = new Error('cut')): void {
    this.#generation += 1
    for (const [one, { lost, lease }] of this.#out) {
      clearTimeout(lease)
      one.count += 1
      one.isRedelivered = true
      lost.abort(error)
    }
    this.#out.clear()
    this.#failed?.(error)
    this.#wake()
  }

  async open({
    prefetch,
    failed,
  }: {
    prefetch: number
    failed: (error: unknown) => void
  }): Promise<OpenSource> {
    this.opened += 1
    const failure = this.openFailures.shift()
    if (failure !== undefined) throw failure
    this.#failed = failed
    this.#generation += 1
    const generation = this.#generation
    return {
      receive: (limit, { signal }) => this.#receive(limit, { prefetch, generation }, signal),
      close: async () => {
        if (generation !== this.#generation) return
        this.#failed = undefined
        for (const [one, { lost, lease }] of this.#out) {
          clearTimeout(lease)
          one.isRedelivered = true
          lost.abort(new Error('closed'))
        }
        this.#out.clear()
        this.#generation += 1
        this.#wake()
      },
    }
  }

  async #receive(
    limit: number,
    { prefetch, generation }: { prefetch: number; generation: number },
    signal: AbortSignal,
  ): Promise<readonly Delivery[]> {
    this.limits.push(limit)
    for (;;) {
      if (signal.aborted) return []
      if (generation !== this.#generation) throw new Error('The connection is gone.')
      const found = this.#due().slice(
        0,
        Math.min(limit, this.isGenerous ? Infinity : prefetch - this.#out.size),
      )
      if (found.length > 0) return found.map((one) => this.#deliver(one))
      await this.#woken(signal)
    }
  }

  #due(): Stored[] {
    const busy = new Set([...this.#out.keys()].map(({ key }) => key))
    const seen = new Set<string>()
    return this.#stored.filter((one) => {
      const { key } = one
      const isDue = one.dueAt <= performance.now() && !this.#out.has(one)
      if (!this.traits.ordersKeys || key === undefined) return isDue
      if (this.isGenerous && (isDue || this.#out.has(one)) && !seen.has(key)) return isDue
      if (seen.has(key)) return false
      seen.add(key)
      return isDue && !busy.has(key)
    })
  }

  #woken(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', wake)
        this.#wakers.delete(wake)
        resolve()
      }
      const delays = this.#stored.map(({ dueAt }) => dueAt - performance.now()).filter((ms) => ms > 0)
      const timer = delays.length > 0 ? setTimeout(wake, Math.ceil(Math.min(...delays))) : undefined
      this.#wakers.add(wake)
      signal.addEventListener('abort', wake)
    })
  }

  #wake(): void {
    for (const wake of this.#wakers) wake()
  }

  #deliver(one: Stored): Delivery {
    const lost = new AbortController()
    const held = { lost, lease: this.#lease(one, lost) }
    this.#out.set(one, held)
    this.mostOut = Math.max(this.mostOut, this.#out.size)
    let isSettled = false
    const settle = (settled: Omit<Settled, 'id'>, effect: () => void): Promise<void> => {
      if (isSettled || lost.signal.aborted) return Promise.resolve()
      isSettled = true
      clearTimeout(held.lease)
      this.settled.push({ id: one.message.id, ...settled })
      this.#out.delete(one)
      effect()
      this.#wake()
      return Promise.resolve()
    }
    const remove = (): void => {
      this.#stored = this.#stored.filter((other) => other !== one)
    }
    const { countsDeliveries, delays, leaseMs, settlesInTransaction } = this.traits
    const counted = countsDeliveries ? one.count + 1 : 1
    return {
      message: { ...one.message },
      ...(one.undecodable === undefined ? {} : { undecodable: one.undecodable }),
      key: one.key,
      isSuspect: one.isSuspect,
      deliveries: Math.max(counted, one.isRedelivered && !countsDeliveries ? 2 : 1),
      ...(countsDeliveries === 'per-delivery' && one.isRedelivered ? { isCounted: this.showsCounts } : {}),
      lost: lost.signal,
      accept: async (how = {}) => {
        await this.onAccept(one.message.id, how)
        await settle({ how: 'accept' }, remove)
      },
      retry: (how) =>
        settle({ how: 'retry', ...how }, () => {
          if (how.counted) one.count += 1
          one.isRedelivered = true
          one.dueAt = delays ? performance.now() + how.delayMs : -Infinity
        }),
      reject: async ({ error }) => {
        await this.onReject(one.message.id)
        await settle({ how: 'reject', error }, () => {
          remove()
          this.rejected.push(one.message)
        })
      },
      ...(this.postpones === undefined
        ? {}
        : {
            postpone: async ({ delayMs, counted, deliveries }) => {
              const how = { delayMs, counted, deliveries }
              if (this.postpones === 'not now') return false
              await settle({ how: 'postpone', ...how }, () => {
                one.count = how.deliveries
                one.dueAt = performance.now() + how.delayMs
                // The message comes back behind all others.
                remove()
                this.#stored.push(one)
              })
              return true
            },
          }),
      ...(leaseMs === undefined
        ? {}
        : {
            extend: async (ms: number) => {
              this.extensions.push(one.message.id)
              clearTimeout(held.lease)
              if (!isSettled && !lost.signal.aborted) held.lease = this.#lease(one, lost, ms)
            },
          }),
      ...(settlesInTransaction
        ? {
            settleIn: async (tx: unknown) => {
              await this.settleIn(tx, one.message.id)
              await settle({ how: 'accept' }, remove)
            },
          }
        : {}),
    }
  }

  #lease(one: Stored, lost: AbortController, ms = this.traits.leaseMs): NodeJS.Timeout | undefined {
    if (ms === undefined) return undefined
    return setTimeout(() => {
      this.#out.delete(one)
      one.count += 1
      one.isRedelivered = true
      lost.abort(new Error('The lease has run out.'))
      this.#wake()
    }, ms)
  }
}
