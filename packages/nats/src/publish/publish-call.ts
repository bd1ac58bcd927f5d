import type { OutboxMessage, PublishOptions, PublishResult } from '@txbox/core'
import {
  destinationOf,
  outgoingOrRejected,
  type OrderedBatch,
  type RememberedNames,
} from '@txbox/core/internal'
import type { Confirmation } from './confirmations.ts'
import type { PublisherSettings } from './nats-publisher-options.ts'
import { outgoingMessage, type OutgoingMessage } from './outgoing-message.ts'
import type { PublishConnection } from './publish-connection.ts'
import {
  answerIn,
  forbiddenResult,
  foreignResult,
  isOutage,
  lateResult,
  refusedResult,
  unheardResult,
} from './verdicts.ts'

const ACCEPTED: PublishResult = { status: 'accepted' }

/**
 * Publishes the messages of one call. Keys do not wait for each other: of each key, the next message is sent when the one before is
 * accepted.
 */
export class PublishCall {
  readonly #connection: PublishConnection
  readonly #batch: OrderedBatch
  readonly #settings: PublisherSettings
  /** The subjects that streams have taken. */
  readonly #seen: RememberedNames
  readonly #answered: PublishOptions['answered']
  readonly #lifetime = new AbortController()
  readonly #end = Promise.withResolvers<void>()
  #inWork = 0

  constructor(
    connection: PublishConnection,
    batch: OrderedBatch,
    how: {
      readonly settings: PublisherSettings
      readonly seen: RememberedNames
      readonly answered: PublishOptions['answered']
    },
  ) {
    this.#connection = connection
    this.#batch = batch
    this.#settings = how.settings
    this.#seen = how.seen
    this.#answered = how.answered
  }

  /** @throws {BrokerUnavailableError} when the connection fails; the signal's reason when the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const abort = (): void => this.#end.reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    try {
      this.#take(this.#batch.due())
      await this.#end.promise
    } finally {
      // From now on no message is sent, and no result is reported.
      this.#lifetime.abort()
      signal.removeEventListener('abort', abort)
    }
  }

  get #isOver(): boolean {
    return this.#lifetime.signal.aborted
  }

  /** Lets the messages at these places be sent, or rejects them if they cannot be. */
  #take(places: readonly number[]): void {
    this.#inWork += 1
    for (const place of places) {
      const outgoing = this.#outgoingOrRejection(this.#batch.messages[place]!)
      if ('status' in outgoing) this.#settle(place, outgoing)
      else void this.#send(place, outgoing)
    }
    this.#leave()
  }

  #outgoingOrRejection(message: OutboxMessage): OutgoingMessage | PublishResult {
    const { subjectOf, stream } = this.#settings
    const { maxMessageBytes } = this.#connection
    return outgoingOrRejected(() =>
      outgoingMessage(message, destinationOf(message, 'subject', subjectOf), { maxMessageBytes, stream }),
    )
  }

  async #send(place: number, outgoing: OutgoingMessage): Promise<void> {
    this.#inWork += 1
    try {
      const confirmation = await this.#connection.send(outgoing, this.#lifetime.signal)
      if (this.#isOver || confirmation === 'unsent') return
      const result = await this.#resultOf(this.#batch.messages[place]!, outgoing.subject, confirmation)
      if (!this.#isOver) this.#settle(place, result)
    } catch (error) {
      this.#end.reject(error)
    } finally {
      this.#leave()
    }
  }

  /** @throws {BrokerUnavailableError} when it is unknown whether the message is stored. */
  async #resultOf(
    message: OutboxMessage,
    subject: string,
    confirmation: Confirmation,
  ): Promise<PublishResult> {
    if (confirmation === 'forbidden') return forbiddenResult(message, subject)
    if (confirmation === 'late') return lateResult(message, subject, this.#settings.confirmTimeoutMs)
    if (confirmation === 'no-responders') {
      const search = await this.#connection.find(subject)
      return unheardResult(message, subject, { search, wasSeen: this.#seen.has(subject) })
    }
    const answer = answerIn(confirmation.data)
    if (answer === 'foreign') return foreignResult(message, subject)
    if (answer === 'stored') {
      this.#seen.add(subject)
      return ACCEPTED
    }
    const { refusal } = answer
    if (isOutage(refusal)) throw this.#connection.fail(new Error(`${refusal.text} (${refusal.code})`))
    return refusedResult(message, subject, refusal)
  }

  #settle(place: number, result: PublishResult): void {
    const next = this.#batch.settle(place, result)
    this.#answered?.(place, result)
    if (next !== undefined) this.#take([next])
  }

  #leave(): void {
    this.#inWork -= 1
    if (this.#inWork === 0) this.#end.resolve()
  }
}
