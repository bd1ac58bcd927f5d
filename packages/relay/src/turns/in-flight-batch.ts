import { PublishTimeoutError, type OutboxMessage, type PublishResult, type Publisher } from '@txbox/core'
import type { BacklogMessage } from '@txbox/core/ports'
import {
  jsonOf,
  oneLine,
  textOf,
  type EventListeners,
  type FindTelemetry,
  type HeldShard,
} from '@txbox/core/internal'
import type { RelayEvents } from '../options/relay.ts'
import { EarlyAnswers, PublishQueue, checkResults } from './key-order.ts'
import { inSendingSpan } from './sending-span.ts'
import type { SuspectLane } from './suspect-lane.ts'

/**
 * A call that takes longer does not block keys for which it has already reported results: their next messages are
 * published in another call.
 */
const STALL_MS = 50
/** The maximum number of concurrent calls of one batch. */
const MAX_CALLS = 4

/** The source of a batch's messages. A suspect is a parked message that is tried alone. */
export type BatchKind = 'outbox' | 'parked' | 'suspect'

export type Rejection = Extract<PublishResult, { status: 'rejected' }>

interface BatchResults {
  readonly accepted: readonly BacklogMessage[]
  readonly rejected: readonly { readonly message: BacklogMessage; readonly result: Rejection }[]
  /** Messages whose rows were written by hand and cannot be decoded: they were not published. */
  readonly unreadable: readonly BacklogMessage[]
}

export interface CallTools {
  readonly publisher: Publisher
  readonly publishTimeoutMs: number
  readonly suspectLane: SuspectLane
  readonly events: EventListeners<RelayEvents>
  readonly telemetry: FindTelemetry
  /** Aborted when the publisher has to stop now. */
  readonly signal: AbortSignal
}

/**
 * A batch that was passed to the publisher: its calls, and their results so far. Each message of a key is published
 * after its predecessor was accepted, unless the publisher keeps the order of keys itself; after a rejection, the rest
 * of the key is left for later. A batch may outlive the turn that began it: later turns then settle its results.
 */
export class InFlightBatch {
  readonly kind: BatchKind
  readonly messages: readonly BacklogMessage[]
  readonly begunAt = performance.now()
  /** Resolves when the last call has ended, however it ended; never rejects. */
  readonly ended: Promise<void>
  readonly #held: HeldShard
  readonly #tools: CallTools
  readonly #queue: PublishQueue
  #onNews: () => void = () => {}
  #hasEnded = false
  #calls = 0
  #callsInProgress = 0
  #answered = 0
  #isLate = false
  #failure: { readonly error: unknown } | undefined
  #accepted: BacklogMessage[] = []
  #rejected: { message: BacklogMessage; result: Rejection }[] = []
  #unreadable: readonly BacklogMessage[]
  /** Whether results have arrived that no turn has taken. */
  #hasNews = false
  /** Whether the last call has been in progress for some time. */
  #isStalled = false
  #stalling: NodeJS.Timeout | undefined
  /** Wakes up the loop that begins calls. */
  #changed: () => void = () => {}

  constructor(kind: BatchKind, messages: readonly BacklogMessage[], held: HeldShard, tools: CallTools) {
    this.kind = kind
    this.messages = messages
    this.#held = held
    this.#tools = tools
    this.#unreadable = messages.filter(({ undecodable }) => undecodable !== undefined)
    const readable = messages.filter(({ undecodable }) => undecodable === undefined)
    this.#queue = new PublishQueue(readable, tools.publisher.ordering)
    this.ended = this.#publish().then(() => {
      this.#hasEnded = true
      this.#onNews()
    })
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  get calls(): number {
    return this.#calls
  }

  /** The number of messages that were accepted or rejected so far. */
  get answered(): number {
    return this.#answered
  }

  /** Whether a call reported no result for `publishTimeoutMs`. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** The error of a call that threw or returned an invalid answer: the fate of messages without a result is unknown. */
  get failure(): { readonly error: unknown } | undefined {
    return this.#failure
  }

  /** `listener` is called at the first result that no turn has taken, and when the last call has ended. */
  onNews(listener: () => void): void {
    this.#onNews = listener
  }

  /** Takes the results that have arrived since the last time. */
  takeResults(): BatchResults {
    this.#hasNews = false
    const results = { accepted: this.#accepted, rejected: this.#rejected, unreadable: this.#unreadable }
    this.#accepted = []
    this.#rejected = []
    this.#unreadable = []
    return results
  }

  /**
   * The maximum number of concurrent calls at the moment. One call is kept for other messages, so that scheduled messages
   * that take long do not block them.
   */
  get #limit(): number {
    return this.#queue.hasOnlyPassedOver ? MAX_CALLS - 1 : MAX_CALLS
  }

  async #publish(): Promise<void> {
    for (;;) {
      const isFree = this.#callsInProgress === 0 || (this.#isStalled && this.#callsInProgress < this.#limit)
      const mayCall = this.#failure === undefined && this.#held.isTrusted && !this.#tools.signal.aborted
      if (isFree && mayCall && this.#queue.hasDue) {
        this.#calls++
        this.#callsInProgress++
        this.#isStalled = false
        clearTimeout(this.#stalling)
        this.#stalling = setTimeout(() => {
          this.#isStalled = true
          this.#changed()
        }, STALL_MS)
        void this.#call(this.#queue.take())
          .catch((error: unknown) => void (this.#failure ??= { error }))
          .finally(() => {
            this.#callsInProgress--
            this.#changed()
          })
      } else if (this.#callsInProgress === 0) return clearTimeout(this.#stalling)
      else await new Promise<void>((resolve) => (this.#changed = resolve))
    }
  }

  async #call(messages: readonly BacklogMessage[]): Promise<void> {
    const { publisher, publishTimeoutMs, signal } = this.#tools
    const early = new EarlyAnswers(messages, publisher.ordering)
    let hasEnded = false
    const answered = (index: number, result: PublishResult): void => {
      if (hasEnded || !early.add(index, result)) return
      // A call with many messages may take as long as it likes while it makes progress.
      if (!aborting.signal.aborted) timer.refresh()
      this.#take(messages[index]!, result)
      if (this.#queue.hasDue) this.#changed()
      if (!this.#hasNews) this.#onNews()
      this.#hasNews = true
    }
    const aborting = new AbortController()
    const abort = (): void => aborting.abort(signal.reason)
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    const timer = setTimeout(() => this.#late(messages, aborting), publishTimeoutMs)
    try {
      const outgoing = messages.map((message) => new PublishableMessage(message))
      const publish = () => publisher.publish(outgoing, { signal: aborting.signal, answered })
      const telemetry = this.#tools.telemetry()
      const results = await (telemetry === undefined
        ? publish()
        : inSendingSpan(telemetry, publisher, outgoing, publish))
      checkResults(results, messages)
      for (let index = 0; index < messages.length; index++) {
        if (!early.has(index)) this.#take(messages[index]!, results[index]!)
      }
    } finally {
      hasEnded = true
      clearTimeout(timer)
      signal.removeEventListener('abort', abort)
    }
  }

  #late(messages: readonly BacklogMessage[], aborting: AbortController): void {
    const { publishTimeoutMs, events, suspectLane } = this.#tools
    this.#isLate = true
    const error = lateError(messages, publishTimeoutMs)
    aborting.abort(new DOMException(error.message, 'TimeoutError'))
    events.emit('error', { error })
    // Other suspects need not wait: the attempt is counted.
    if (this.kind === 'suspect') suspectLane.leave(this.#held)
  }

  #take(message: BacklogMessage, result: PublishResult): void {
    if (result.status === 'skipped') return
    this.#answered++
    if (result.status === 'rejected') return void this.#rejected.push({ message, result })
    this.#accepted.push(message)
    this.#queue.accepted(message)
  }
}

class PublishableMessage implements OutboxMessage {
  readonly id: string
  readonly topic: string
  declare readonly type?: string
  declare readonly key?: string
  readonly payload: Uint8Array
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  declare readonly correlationId?: string
  readonly createdAt: Date
  readonly attempt: number

  constructor(stored: BacklogMessage) {
    this.id = stored.id
    this.topic = stored.topic
    if (stored.type !== undefined) this.type = stored.type
    if (stored.key !== undefined) this.key = stored.key
    this.payload = stored.payload
    this.contentType = stored.contentType
    this.headers = stored.headers
    if (stored.correlationId !== undefined) this.correlationId = stored.correlationId
    this.createdAt = stored.createdAt
    this.attempt = stored.attempts + 1
  }

  text(): string {
    return textOf(this)
  }

  json<P = unknown>(): P {
    return jsonOf(this) as P
  }
}

function lateError(messages: readonly BacklogMessage[], publishTimeoutMs: number): PublishTimeoutError {
  return new PublishTimeoutError(
    `The publisher has reported no result of a call with ${messages.length} messages, the first with id ` +
      `${oneLine(messages[0]!.id)}, for ${publishTimeoutMs} ms. The signal of the call has been ` +
      'aborted. Only the shard of these messages waits until the call ends.',
  )
}
