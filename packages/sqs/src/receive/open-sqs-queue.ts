import { randomUUID } from 'node:crypto'
import { BrokerUnavailableError, type Delivery, type OpenSource } from '@txbox/core'
import { LeaseExpiries, unlessAborted, within } from '@txbox/core/internal'
import type { DeadLetterQueue } from './dead-letter-queue.ts'
import type { MessageReader } from './message-reader.ts'
import type { ReceivedQueue } from './received-queue.ts'
import { SqsDelivery, type DeliveryOwner } from './sqs-delivery.ts'

/** The most messages that a request of SQS returns. */
const MOST_MESSAGES = 10
/** How many further requests look for messages when the first one has returned as many as it can. */
const MOST_FURTHER = 8

/** How long `close` waits for a request that may be about to return messages: they would be out of sight until their timeout. */
const LAST_ANSWER_MS = 300

interface OpenHow {
  readonly prefetch: number
  readonly visibilityTimeoutMs: number
  readonly waitMs: number
  readonly reader: MessageReader
  readonly deadLetters: DeadLetterQueue | undefined
  /** Called once when the queue is closed. */
  readonly closed: () => void
}

/** A queue from which a consumer receives. */
export class OpenSqsQueue<P> implements OpenSource<P>, DeliveryOwner<P> {
  /** A request that fails says nothing about the deliveries: their receipts are valid until the visibility timeout. */
  readonly keepsDeliveries = true
  readonly queue: ReceivedQueue
  readonly reader: MessageReader
  readonly deadLetters: DeadLetterQueue | undefined
  readonly #how: OpenHow
  /** The deliveries that are not settled, in the order of their receipt, with those that `receive` has not returned yet. */
  readonly #unsettled = new Set<SqsDelivery<P>>()
  #buffer: SqsDelivery<P>[] = []
  /** The request that waits for messages, which outlives an aborted `receive`. */
  #poll: Promise<void> | undefined
  #attemptId: string | undefined
  #receivers = 0
  #isLosing = false
  readonly #closing = new AbortController()
  /** Ends the request that waits for messages. */
  readonly #hangUp = new AbortController()
  #closed: Promise<void> | undefined
  readonly #expiries = new LeaseExpiries<SqsDelivery<P>>(
    () => this.#unsettled,
    (delivery) => delivery.lose(),
  )
  #onFreeSlot: (() => void) | undefined

  constructor(queue: ReceivedQueue, how: OpenHow) {
    this.queue = queue
    this.reader = how.reader
    this.deadLetters = how.deadLetters
    this.#how = how
  }

  async receive(
    limit: number,
    { signal }: { readonly signal: AbortSignal },
  ): Promise<readonly Delivery<P>[]> {
    const stop = AbortSignal.any([signal, this.#closing.signal])
    this.#receivers += 1
    try {
      while (!stop.aborted) {
        this.#buffer = this.#buffer.filter(({ isOut }) => isOut)
        if (this.#buffer.length > 0) return this.#buffer.splice(0, limit)
        await this.#freeSlot(stop)
        if (stop.aborted) break
        this.#poll ??= this.#startPoll(limit)
        await unlessAborted(this.#poll, stop).catch((error: unknown) => {
          if (!stop.aborted) throw error
        })
      }
      return []
    } finally {
      this.#receivers -= 1
      this.#returnBuffer()
    }
  }

  close({ signal }: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    this.#closed ??= this.#close(signal)
    return this.#closed
  }

  ended(delivery: SqsDelivery<P>): void {
    this.#unsettled.delete(delivery)
    this.#onFreeSlot?.()
  }

  /** Loses the later deliveries of the same message group first: they must not be handled before the lost one is. */
  losing(delivery: SqsDelivery<P>): void {
    const { group } = delivery
    if (!this.queue.queue.isFifo || group === undefined || this.#isLosing) return
    this.#isLosing = true
    const ofGroup = [...this.#unsettled].filter((each) => each.group === group)
    for (const each of ofGroup.slice(ofGroup.indexOf(delivery) + 1).toReversed())
      if (each.isOut) each.giveUp()
    this.#isLosing = false
  }

  expireAt(at: number): void {
    this.#expiries.expireAt(at)
  }

  #startPoll(limit: number): Promise<void> {
    const room = Math.min(limit, this.#how.prefetch - this.#unsettled.size)
    const polling = this.#pollFor(room).finally(() => {
      this.#poll = undefined
      this.#returnBuffer()
    })
    // `receive` throws the error, unless it was aborted and waits no more.
    polling.catch(() => undefined)
    return polling
  }

  /** Returns the messages that no call of `receive` has taken: no consumer would renew them. */
  #returnBuffer(): void {
    if (this.#receivers > 0) return
    for (const delivery of this.#buffer.splice(0)) void returned(delivery)
  }

  async #pollFor(room: number): Promise<void> {
    const { waitMs } = this.#how
    await this.#request(Math.min(room, MOST_MESSAGES), waitMs)
    const left = Math.min(room - MOST_MESSAGES, MOST_FURTHER * MOST_MESSAGES)
    if (left <= 0 || this.#buffer.length < MOST_MESSAGES || this.#closing.signal.aborted) return
    const further = Array.from({ length: Math.ceil(left / MOST_MESSAGES) }, (_, n) =>
      this.#request(Math.min(MOST_MESSAGES, left - n * MOST_MESSAGES), 0),
    )
    // An error is ignored, because there are messages already: a lasting one fails the next receive, too.
    await Promise.allSettled(further)
  }

  async #request(limit: number, waitMs: number): Promise<void> {
    const { visibilityTimeoutMs } = this.#how
    const attemptId = this.queue.queue.isFifo ? (this.#attemptId ?? randomUUID()) : undefined
    this.#attemptId = undefined
    const askedAt = performance.now()
    try {
      const messages = await this.queue.receive(
        { limit, waitMs, visibilityTimeoutMs, attemptId },
        this.#hangUp.signal,
      )
      // A late answer, such as after this process stood still: SQS has handed out the messages before the end of the wait.
      const expiresAt = Math.min(performance.now(), askedAt + Math.max(waitMs, 1000)) + visibilityTimeoutMs
      for (const message of messages) {
        const delivery = new SqsDelivery<P>(message, expiresAt, this)
        this.#unsettled.add(delivery)
        this.#buffer.push(delivery)
      }
      if (messages.length > 0) this.expireAt(expiresAt)
    } catch (error) {
      // The next request gets what this one should have returned.
      this.#attemptId = attemptId
      throw error
    }
  }

  async #close(signal: AbortSignal | undefined): Promise<void> {
    this.#closing.abort()
    // An error of the last request leaves nothing to do: its messages, if any, are delivered again after their visibility timeout.
    const last = this.#poll ?? Promise.resolve()
    await unlessAborted(
      within(last, LAST_ANSWER_MS, () => undefined),
      signal,
    ).catch(() => undefined)
    this.#hangUp.abort(closedError())
    await last.catch(() => undefined)
    const returning = Promise.all([...this.#unsettled].map(returned)).then(() => this.queue.idle())
    // Messages that are not returned before the signal is aborted are delivered again as well.
    await unlessAborted(returning, signal).catch(() => undefined)
    for (const delivery of this.#unsettled) delivery.lose()
    this.#expiries.stop()
    this.#how.closed()
  }

  /** Resolves when the consumer has fewer than `prefetch` unsettled deliveries, or when the signal is aborted. */
  async #freeSlot(signal: AbortSignal): Promise<void> {
    while (this.#unsettled.size >= this.#how.prefetch && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#onFreeSlot = resolve
      signal.addEventListener('abort', () => resolve(), { once: true })
      await promise
    }
  }
}

async function returned(delivery: { giveBack(): Promise<void> }): Promise<void> {
  // Without an answer, the message is delivered again after its visibility timeout.
  await delivery.giveBack().catch(() => undefined)
}

function closedError(): BrokerUnavailableError {
  return new BrokerUnavailableError('The source is closed.')
}
