import {
  PublishTimeoutError,
  type BacklogMessage,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
} from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { OneOfEachKey, WholeBatch, type PublishQueue } from './publish-queue.ts'
import { checkResults } from './publish-results.ts'
import { RelayedMessage } from '../relayed-message.ts'

/**
 * A call that takes longer does not hold up the keys whose messages it has answered: their next messages go in another
 * call.
 */
const STALL_MS = 50
/** The maximum number of concurrent calls of one flight. */
const MOST_CALLS = 4
/** There is no such message. */
const NONE = -1

export type Rejection = Extract<PublishResult, { status: 'rejected' }>

/** The results that a flight has brought since the last landing. */
export interface Landing {
  readonly accepted: readonly BacklogMessage[]
  readonly rejected: readonly { readonly message: BacklogMessage; readonly result: Rejection }[]
  /** Rows that were written by hand and cannot be read: these messages were not published. */
  readonly unreadable: readonly BacklogMessage[]
}

export interface FlightTools {
  readonly publisher: Publisher
  readonly publishTimeoutMs: number
  /** Aborted when the publisher has to stop now. */
  readonly signal: AbortSignal
}

/** The source of a flight's messages. A suspect is a parked message that is tried alone. */
export type FlightKind = 'outbox' | 'parked' | 'suspect'

/**
 * The publishing of one batch: calls of the publisher, and their results so far. Each message of a key goes after the
 * message before it was accepted, unless the publisher keeps their order by itself; after a rejection the rest of the key
 * is left for later. A flight may outlive the turn that began it: later turns then settle the results of the flight.
 */
export class Flight {
  readonly kind: FlightKind
  readonly batch: readonly BacklogMessage[]
  readonly begunAt = performance.now()
  /** The number of messages that were accepted or rejected so far. */
  answered = 0
  /** Resolves when the last call has ended, however it ended; never rejects. */
  readonly over: Promise<void>
  isOver = false
  /** Its end has been taken note of, and so has the settlement of what it brought. */
  hasLanded = false
  /** Calls of the publisher that were made. */
  calls = 0
  /** A call threw, or answered nonsense: nothing is known of the messages without a result. */
  failure: { readonly error: unknown } | undefined
  /** A call took longer than `publishTimeoutMs`. */
  isLate = false
  /** Called at the first answer after a landing, and at the end. */
  onNews: () => void = () => {}
  readonly #tools: FlightTools
  readonly #onLate: (error: PublishTimeoutError) => void
  #accepted: BacklogMessage[] = []
  #rejected: { message: BacklogMessage; result: Rejection }[] = []
  #unreadable: readonly BacklogMessage[]
  #hasNews = false
  /** Wakes up the loop that begins calls. */
  #changed: () => void = () => {}

  /**
   * @param mayGoOn asked before each call: is the shard still held, and is the relay not stopping by force?
   * @param onLate receives the error of a call that takes longer than `publishTimeoutMs`.
   */
  constructor(
    kind: FlightKind,
    batch: readonly BacklogMessage[],
    tools: FlightTools,
    { mayGoOn, onLate }: { mayGoOn: () => boolean; onLate: (error: PublishTimeoutError) => void },
  ) {
    this.kind = kind
    this.batch = batch
    this.#tools = tools
    this.#onLate = onLate
    this.#unreadable = batch.filter(({ undecodable }) => undecodable !== undefined)
    const readable =
      this.#unreadable.length === 0 ? batch : batch.filter(({ undecodable }) => undecodable === undefined)
    this.over = this.#fly(readable, mayGoOn).then(() => {
      this.isOver = true
      this.onNews()
    })
  }

  /** Takes the results that have arrived since the last landing. */
  land(): Landing {
    this.#hasNews = false
    const landing = { accepted: this.#accepted, rejected: this.#rejected, unreadable: this.#unreadable }
    this.#accepted = []
    this.#rejected = []
    this.#unreadable = []
    return landing
  }

  async #fly(batch: readonly BacklogMessage[], mayGoOn: () => boolean): Promise<void> {
    const isOrdered = this.#tools.publisher.ordering === 'per-key'
    const queue = isOrdered ? new WholeBatch(batch) : new OneOfEachKey(batch)
    let inProgress = 0
    let isStalled = false
    let stalling: NodeJS.Timeout | undefined
    for (;;) {
      const isFree = inProgress === 0 || (isStalled && inProgress < MOST_CALLS)
      if (queue.due().length > 0 && isFree && this.failure === undefined && mayGoOn()) {
        inProgress++
        this.calls++
        isStalled = false
        clearTimeout(stalling)
        stalling = setTimeout(() => {
          isStalled = true
          this.#changed()
        }, STALL_MS)
        void this.#call(queue.take(), queue)
          .catch((error: unknown) => void (this.failure ??= { error }))
          .finally(() => {
            inProgress--
            this.#changed()
          })
      } else if (inProgress === 0) {
        return clearTimeout(stalling)
      } else {
        await new Promise<void>((resolve) => (this.#changed = resolve))
      }
    }
  }

  async #call(messages: readonly BacklogMessage[], queue: PublishQueue): Promise<void> {
    const { publisher, publishTimeoutMs, signal } = this.#tools
    const early = new Uint8Array(messages.length)
    const before = queue.hasOneOfEachKey ? undefined : predecessors(messages)
    let hasEnded = false
    const take = (message: BacklogMessage, result: PublishResult): void => {
      if (result.status === 'skipped') return
      this.answered++
      if (result.status === 'rejected') return void this.#rejected.push({ message, result })
      this.#accepted.push(message)
      queue.accepted(message)
    }
    const answered = (index: number, result: PublishResult): void => {
      // A place that the call does not have is `undefined` here.
      if (hasEnded || early[index] !== 0) return
      const status = (result as PublishResult | undefined)?.status
      if (status !== 'accepted' && status !== 'rejected') return
      // Out of the order of its key, a result counts with those of the whole call.
      const predecessor = before?.[index] ?? NONE
      if (predecessor !== NONE && early[predecessor] === 0) return
      early[index] = 1
      take(messages[index]!, result)
      if (queue.due().length > 0) this.#changed()
      if (!this.#hasNews) this.onNews()
      this.#hasNews = true
    }
    const call = new AbortController()
    const stop = (): void => call.abort(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    const timer = setTimeout(() => {
      this.isLate = true
      const error = lateError(messages, publishTimeoutMs)
      call.abort(new DOMException(error.message, 'TimeoutError'))
      this.#onLate(error)
    }, publishTimeoutMs)
    try {
      const options = { signal: call.signal, answered }
      const results = await publisher.publish(messages.map(toOutboxMessage), options)
      checkResults(results, messages)
      for (let index = 0; index < messages.length; index++) {
        if (early[index] === 0) take(messages[index]!, results[index]!)
      }
    } finally {
      hasEnded = true
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
    }
  }
}

/** For each message of a call, the place of the one of the same key before it. */
function predecessors(messages: readonly BacklogMessage[]): Int32Array {
  const before = new Int32Array(messages.length).fill(NONE)
  const last = new Map<string, number>()
  for (let index = 0; index < messages.length; index++) {
    const { key } = messages[index]!
    if (key === undefined) continue
    const predecessor = last.get(key)
    if (predecessor !== undefined) before[index] = predecessor
    last.set(key, index)
  }
  return before
}

function toOutboxMessage(stored: BacklogMessage): OutboxMessage {
  return new RelayedMessage(stored)
}

function lateError(messages: readonly BacklogMessage[], publishTimeoutMs: number): PublishTimeoutError {
  return new PublishTimeoutError(
    `The publisher has not answered a call with ${messages.length} messages, the first with id ` +
      `${oneLine(messages[0]!.id)}, for ${publishTimeoutMs} ms. The signal of the call has been ` +
      'aborted. Only the shard of these messages waits until the call ends.',
  )
}
