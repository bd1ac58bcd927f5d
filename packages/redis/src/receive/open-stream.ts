import { RetryLaterError, isTxboxError, type Delivery, type OpenSource } from '@txbox/core'
import { LeaseExpiries, explanationOf, oneLine, pause, unlessAborted, within } from '@txbox/core/internal'
import { RedisRefusal } from '../connection/redis-refusal.ts'
import { WIRE_FIELDS } from '../publish/outgoing-entry.ts'
import { GatheredIds } from './gathered-ids.ts'
import { StreamDelivery, type DeliveryOwner } from './stream-delivery.ts'
import type { ReceivedEntry, Standing, StreamGroup } from './stream-group.ts'

/** How often an idle consumer looks at least for entries that are due or that others have left. */
const LOOK_MS = 1000
/** The parts of a lease in which the consumer looks so often. */
const LOOKS_A_LEASE = 10
/** How long closing may take. */
const CLOSE_TIMEOUT_MS = 2000
/** The pauses before an acceptance is tried again whose connection broke. */
const ACCEPT_PAUSES_MS = [50, 200, 1000]
/** How many ids of entries that are gone a warning names. */
const NAMED = 3
const ERROR_CHARACTERS = 1000

interface OpenHow {
  readonly name: string
  readonly prefetch: number
  readonly leaseMs: number
  readonly failed: (error: unknown) => void
  readonly warned: ((text: string) => void) | undefined
}

/** The consumer of a group, as long as it is open. Its deliveries outlive its connections. */
export class OpenStream<P> implements OpenSource<P>, DeliveryOwner<P> {
  readonly keepsDeliveries = true
  readonly #group: StreamGroup
  readonly #how: OpenHow
  readonly #accepted: GatheredIds
  readonly #extended: GatheredIds
  /** The deliveries that are not settled, by the ids of their entries. */
  readonly #held = new Map<string, StreamDelivery<P>>()
  /** The deliveries that `receive` has not returned yet. */
  readonly #buffer: StreamDelivery<P>[] = []
  readonly #settling = new Set<Promise<unknown>>()
  readonly #stopping = new AbortController()
  /** The fetch in flight, which may outlive the call of `receive` that began it. */
  #fetching: Promise<void> | undefined
  #receivers = 0
  #freed = Promise.withResolvers<void>()
  #lookAt = -Infinity
  #cursor = '0-0'
  readonly #expiries = new LeaseExpiries<StreamDelivery<P>>(
    () => this.#held.values(),
    (delivery) => delivery.lose(),
  )
  #isClosed = false

  constructor(group: StreamGroup, how: OpenHow) {
    this.#group = group
    this.#how = how
    this.#accepted = new GatheredIds((ids) => this.#acceptAll(ids))
    this.#extended = new GatheredIds((ids) => group.extend(ids))
  }

  async receive(limit: number, { signal }: { signal: AbortSignal }): Promise<readonly Delivery<P>[]> {
    const stop = AbortSignal.any([signal, this.#stopping.signal])
    this.#receivers += 1
    try {
      while (!stop.aborted) {
        if (this.#buffer.length > 0) return this.#buffer.splice(0, limit)
        this.#fetching ??= this.#fetch(limit).finally(() => (this.#fetching = undefined))
        await unlessAborted(this.#fetching, stop)
      }
      return []
    } catch (error) {
      if (stop.aborted) return []
      // Another open creates the group again.
      if (this.#group.isGone) this.#how.failed(error)
      throw error
    } finally {
      this.#receivers -= 1
      if (stop.aborted) this.#receivesNoMore()
    }
  }

  stopReceiving(): void {
    this.#stopping.abort()
    this.#receivesNoMore()
  }

  async close({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    if (this.#isClosed) return
    this.#isClosed = true
    this.stopReceiving()
    this.#freed.resolve()
    const leaving = within(this.#leave(), CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
    // Without a connection, others receive the messages after the lease.
    await unlessAborted(leaving, signal).catch(() => undefined)
    this.#expiries.stop()
    for (const delivery of this.#held.values()) delivery.lose('the consumer disconnects')
    await this.#group.close()
  }

  async accept({ entry }: StreamDelivery<P>): Promise<Standing> {
    return await this.#track(this.#accepted.add(entry.entryId))
  }

  async putBack(
    { entry }: StreamDelivery<P>,
    how: { deliveries: number; delayMs: number },
  ): Promise<Standing> {
    const standing = await this.#track(this.#group.putBack(entry.entryId, how))
    this.#lookAt = Math.min(this.#lookAt, performance.now() + how.delayMs)
    return standing
  }

  async reject(
    { entry, deliveries, isGone }: StreamDelivery<P>,
    death: {
      readonly error: unknown
      readonly deliveries?: number | undefined
      readonly id?: string | undefined
    },
  ): Promise<Standing> {
    const fields: (string | Buffer)[] = [...entry.fields].flat()
    if (death.id !== undefined && death.id !== '' && !entry.fields.has(WIRE_FIELDS.id)) {
      fields.unshift(WIRE_FIELDS.id, death.id)
    }
    fields.push('txbox-error', explanationOf(death.error, ERROR_CHARACTERS))
    fields.push('txbox-deliveries', String(death.deliveries ?? deliveries), 'txbox-source', this.#how.name)
    try {
      return await this.#track(this.#group.reject(entry.entryId, fields, isGone))
    } catch (error) {
      if (!(error instanceof RedisRefusal)) throw error
      const message = `The dead letter of the entry ${entry.entryId} of ${this.#how.name} was not accepted: ${error.message}.`
      throw new RetryLaterError({ message })
    }
  }

  extend({ entry }: StreamDelivery<P>): Promise<Standing> {
    return this.#extended.add(entry.entryId)
  }

  gone({ entry }: StreamDelivery<P>): void {
    this.#warnOfGone([entry.entryId])
  }

  ended(delivery: StreamDelivery<P>): void {
    const { entryId } = delivery.entry
    if (this.#held.get(entryId) !== delivery) return
    this.#held.delete(entryId)
    this.#freed.resolve()
  }

  expireAt(at: number): void {
    this.#expiries.expireAt(at)
  }

  /** Receives once: entries that are due or were left by others, or else new entries. Waits until there is room. */
  async #fetch(limit: number): Promise<void> {
    const { prefetch, leaseMs } = this.#how
    const room = (): number => Math.min(limit, prefetch - this.#held.size)
    while (room() <= 0) {
      this.#freed = Promise.withResolvers()
      if (room() <= 0) await this.#freed.promise
      if (this.#isClosed) return
    }
    const everyMs = Math.min(LOOK_MS, leaseMs / LOOKS_A_LEASE)
    if (performance.now() >= this.#lookAt) await this.#claim(room(), everyMs)
    else {
      const sentAt = performance.now()
      const waitMs = Math.max(1, Math.min(everyMs, this.#lookAt - sentAt))
      this.#add(await this.#group.read(room(), waitMs), sentAt)
    }
    if (this.#receivers === 0) this.#receivesNoMore()
  }

  async #claim(limit: number, everyMs: number): Promise<void> {
    const sentAt = performance.now()
    this.#lookAt = sentAt + everyMs
    const { entries, gone, cursor } = await this.#group.claim(limit, this.#cursor)
    this.#cursor = cursor
    // There may be more.
    if (entries.length === limit || cursor !== '0-0') this.#lookAt = -Infinity
    this.#add(entries, sentAt)
    this.#warnOfGone(gone)
  }

  #add(entries: readonly ReceivedEntry[], sentAt: number): void {
    const expiresAt = sentAt + this.#how.leaseMs
    for (const entry of entries) {
      // This consumer's own lease was over, and nobody else has taken the message.
      this.#held.get(entry.entryId)?.lose()
      const delivery = new StreamDelivery<P>(entry, this, expiresAt)
      this.#held.set(entry.entryId, delivery)
      this.#buffer.push(delivery)
    }
    if (entries.length > 0) this.expireAt(expiresAt)
  }

  /** Ends the read that waits at the server, and returns the deliveries that `receive` has not returned. */
  #receivesNoMore(): void {
    if (this.#receivers > 0) return
    if (this.#fetching !== undefined) this.#group.unblock()
    for (const delivery of this.#buffer.splice(0)) {
      // A message that cannot be returned is received again after the lease.
      delivery.retry({ delayMs: 0, counted: false }).catch(() => undefined)
    }
  }

  /** Without an answer, the acceptance may have arrived: then the second one finds nothing, and the delivery counts as lost. */
  async #acceptAll(ids: readonly string[]): Promise<readonly Standing[]> {
    for (const pauseMs of ACCEPT_PAUSES_MS) {
      try {
        return await this.#group.accept(ids)
      } catch (error) {
        if (!isTxboxError(error) || this.#isClosed) throw error
        await pause(pauseMs)
      }
    }
    return await this.#group.accept(ids)
  }

  async #leave(): Promise<void> {
    // `receive` throws the error of a fetch, unless it was aborted and waits no more.
    await this.#fetching?.catch(() => undefined)
    while (this.#settling.size > 0) await Promise.allSettled(this.#settling)
    this.#warnOfGone(await this.#group.leave())
  }

  async #track<T>(settling: Promise<T>): Promise<T> {
    this.#settling.add(settling)
    try {
      return await settling
    } finally {
      this.#settling.delete(settling)
    }
  }

  #warnOfGone(ids: readonly string[]): void {
    if (ids.length === 0) return
    const named = ids.slice(0, NAMED).map((id) => oneLine(id, 60))
    const more = ids.length > NAMED ? ` and ${ids.length - NAMED} more` : ''
    this.#how.warned?.(
      `${this.#how.name}: entries were deleted before they were handled, by XDEL or because the stream was trimmed: ` +
        `${named.join(', ')}${more}. Trim only what all groups have handled.`,
    )
  }
}
