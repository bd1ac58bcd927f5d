import type { OutboxMessage, PublishOptions, PublishResult } from '@txbox/core'
import {
  destinationOf,
  outgoingOrRejected,
  type OrderedBatch,
  type RememberedNames,
} from '@txbox/core/internal'
import type { CommandArgument } from '../connection/command-port.ts'
import type { RedisConnection } from '../connection/redis-connection.ts'
import { RedisRefusal } from '../connection/redis-refusal.ts'
import { outgoingEntry } from './outgoing-entry.ts'
import { outageReason, refusedResult } from './verdicts.ts'

const ACCEPTED: PublishResult = { status: 'accepted' }

/** How many messages, and bytes of payload, are sent together. One message may have more bytes. */
const CHUNK_MESSAGES = 1000
const CHUNK_BYTES = 4_194_304

/** How much of the time limit the server waits for its replicas, so that its answer still comes in time. */
const REPLICAS_SHARE = 0.8

export interface CallSettings {
  readonly streamOf: (message: OutboxMessage) => unknown
  readonly maxLength: number | undefined
  readonly waitReplicas: number
  readonly maxMessageBytes: number
  readonly confirmTimeoutMs: number
  /** The streams that took messages. */
  readonly seen: RememberedNames
}

/** A message that can be sent. */
interface Outgoing {
  readonly place: number
  readonly stream: string
  readonly command: readonly CommandArgument[]
}

/**
 * Publishes the messages of one call, wave by wave: in each wave, the first message of each key without a result. If Redis refused a
 * message and took the next one of its key, their order would be lost.
 */
export class PublishCall {
  readonly #connection: RedisConnection
  readonly #batch: OrderedBatch
  readonly #settings: CallSettings
  readonly #answered: PublishOptions['answered']
  readonly #signal: AbortSignal
  /** Whether `publish` has returned, or thrown. */
  #isOver = false
  /** The places of the messages of the next wave. */
  #due: number[]

  constructor(
    connection: RedisConnection,
    batch: OrderedBatch,
    settings: CallSettings,
    { signal, answered }: PublishOptions,
  ) {
    this.#connection = connection
    this.#batch = batch
    this.#settings = settings
    this.#signal = signal
    this.#answered = answered
    this.#due = batch.due()
  }

  /** @throws {BrokerUnavailableError} when the result of a message is unknown; the signal's reason when the signal is aborted. */
  async run(): Promise<void> {
    try {
      while (this.#due.length > 0) {
        for (const chunk of this.#chunksOf(this.#due.splice(0))) {
          this.#signal.throwIfAborted()
          await this.#sendChunk(chunk)
        }
      }
    } finally {
      // From now on no result is reported.
      this.#isOver = true
    }
  }

  /** Takes what can be sent together. Messages that cannot be sent have their results at once. */
  *#chunksOf(places: readonly number[]): Generator<readonly Outgoing[]> {
    let chunk: Outgoing[] = []
    let bytes = 0
    for (const place of places) {
      const outgoing = this.#outgoing(place)
      if ('status' in outgoing) {
        this.#settle(place, outgoing)
        continue
      }
      const size = this.#batch.messages[place]!.payload.byteLength
      if (chunk.length > 0 && (chunk.length >= CHUNK_MESSAGES || bytes + size > CHUNK_BYTES)) {
        yield chunk
        chunk = []
        bytes = 0
      }
      chunk.push(outgoing)
      bytes += size
    }
    if (chunk.length > 0) yield chunk
  }

  #outgoing(place: number): Outgoing | PublishResult {
    const message = this.#batch.messages[place]!
    const { streamOf, maxLength, maxMessageBytes } = this.#settings
    return outgoingOrRejected(() => {
      const stream = destinationOf(message, 'stream', streamOf)
      const entry = outgoingEntry(message, stream, maxMessageBytes)
      const trim = maxLength === undefined ? [] : ['MAXLEN', '~', String(maxLength)]
      return { place, stream, command: ['XADD', stream, ...trim, '*', ...entry] }
    })
  }

  async #sendChunk(chunk: readonly Outgoing[]): Promise<void> {
    const { waitReplicas } = this.#settings
    const results = await Promise.all(
      chunk.map(async (outgoing) => {
        const result = await this.#send(outgoing)
        if (waitReplicas === 0 || result.status !== 'accepted') this.#settle(outgoing.place, result)
        return result
      }),
    )
    if (waitReplicas === 0) return
    const accepted = chunk.filter((_, n) => results[n]!.status === 'accepted')
    if (accepted.length > 0) await this.#waitForReplicas()
    for (const { place } of accepted) this.#settle(place, ACCEPTED)
  }

  async #send({ place, stream, command }: Outgoing): Promise<PublishResult> {
    const { seen } = this.#settings
    try {
      await this.#connection.send(command)
      seen.add(stream)
      return ACCEPTED
    } catch (error) {
      if (!(error instanceof RedisRefusal)) throw error
      const message = this.#batch.messages[place]!
      const result = refusedResult(message, stream, error, seen.has(stream))
      if (result === undefined) throw this.#connection.fail(new Error(outageReason(error)))
      return result
    }
  }

  /** Waits until the replicas have what this connection has written. */
  async #waitForReplicas(): Promise<void> {
    const { waitReplicas, confirmTimeoutMs } = this.#settings
    const timeoutMs = Math.ceil(confirmTimeoutMs * REPLICAS_SHARE)
    let replicas: unknown
    try {
      replicas = await this.#connection.send(['WAIT', String(waitReplicas), String(timeoutMs)])
    } catch (error) {
      throw error instanceof RedisRefusal ? this.#connection.fail(error) : error
    }
    if (Number(replicas) >= waitReplicas) return
    throw this.#connection.fail(
      new Error(
        `${Number(replicas)} replicas have the messages after ${timeoutMs} ms; 'waitReplicas' is ${waitReplicas}`,
      ),
    )
  }

  #settle(place: number, result: PublishResult): void {
    if (this.#isOver || this.#signal.aborted) return
    const next = this.#batch.settle(place, result)
    this.#answered?.(place, result)
    if (next !== undefined) this.#due.push(next)
  }
}
