import { type OutboxMessage, type PublishOptions, type PublishResult } from '@txbox/core'
import {
  destinationOf,
  outgoingOrRejected,
  type OrderedBatch,
  type RememberedNames,
} from '@txbox/core/internal'
import type { Refusal } from '../connection/aws-errors.ts'
import { destinationOfMessage, type Destination } from './destination.ts'
import { outgoingMessage, refusal, type OutgoingMessage, type OutgoingSettings } from './outgoing-message.ts'
import { sendBatch, type Services } from './send-batch.ts'
import type { Slots } from './slots.ts'
import { SNS_BYTES, SQS_BYTES } from './sqs-options.ts'
import { refusedResult } from './verdicts.ts'

const ACCEPTED: PublishResult = { status: 'accepted' }

/** The most messages of one request. */
const MOST_ENTRIES = 10

export interface CallSettings extends OutgoingSettings {
  readonly destinationOf: (message: OutboxMessage) => unknown
  readonly services: Services
  readonly slots: Slots
  /** The destinations that have taken messages. */
  readonly seen: RememberedNames
}

interface Outgoing {
  readonly destination: Destination
  readonly message: OutgoingMessage
}

/** The messages for one destination that may be sent, by their places. */
interface Flow {
  readonly destination: Destination
  readonly due: number[]
}

/**
 * Publishes the messages of one call. Destinations do not wait for each other, but share the slots of the publisher. Of each key, the next
 * message is sent when the one before is accepted: a request can fail in its middle.
 */
export class PublishCall {
  readonly #batch: OrderedBatch
  readonly #settings: CallSettings
  readonly #answered: PublishOptions['answered']
  readonly #outgoing = new Map<number, Outgoing>()
  /** By their names: reading the URL of a queue for each message would take a tenth of the publisher's own time. */
  readonly #destinations = new Map<string, Destination>()
  /** The places of messages that are sent by requests of their own. */
  readonly #alone = new Set<number>()
  readonly #flows = new Map<string, Flow>()
  readonly #lifetime = new AbortController()
  readonly #end = Promise.withResolvers<void>()
  #inFlight = 0

  constructor(batch: OrderedBatch, settings: CallSettings, answered: PublishOptions['answered']) {
    this.#batch = batch
    this.#settings = settings
    this.#answered = answered
  }

  /** @throws {BrokerUnavailableError} when a request fails; the signal's reason when the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    const abort = (): void => this.#end.reject(signal.reason)
    signal.addEventListener('abort', abort, { once: true })
    try {
      this.#take(this.#batch.due())
      this.#pump()
      await this.#end.promise
    } finally {
      // From now on no message is sent, and no result is reported.
      this.#lifetime.abort()
      this.#settings.slots.forget(this.#pump)
      signal.removeEventListener('abort', abort)
    }
  }

  get #isOver(): boolean {
    return this.#lifetime.signal.aborted
  }

  /** Lets the messages at these places be sent, or rejects them if they cannot be. */
  #take(places: readonly number[]): void {
    for (const place of places) {
      const outgoing = this.#outgoingOf(place)
      if ('status' in outgoing) {
        this.#settle(place, outgoing)
        continue
      }
      const { destination } = outgoing
      const flow = this.#flows.get(destination.name)
      if (flow === undefined) this.#flows.set(destination.name, { destination, due: [place] })
      else flow.due.push(place)
    }
  }

  /** Sends what is due as far as there are slots, destination by destination in turn. Called again when there is one. */
  readonly #pump = (): void => {
    while (!this.#isOver && this.#flows.size > 0) {
      for (const [name, flow] of this.#flows) {
        if (!this.#settings.slots.take(this.#pump)) return
        this.#inFlight += 1
        void this.#send(flow.destination, this.#nextBatch(flow))
        if (flow.due.length === 0) this.#flows.delete(name)
      }
    }
    if (this.#inFlight === 0 && this.#flows.size === 0) this.#end.resolve()
  }

  /** Takes out of `due` what one request can hold. */
  #nextBatch({ destination, due }: Flow): readonly number[] {
    const mostBytes = mostBytesOf(destination)
    due.sort((a, b) => a - b)
    let bytes = 0
    let count = 0
    for (const place of due) {
      bytes += this.#outgoing.get(place)!.message.bytes
      const isAlone = this.#alone.has(place)
      if (count > 0 && (isAlone || bytes > mostBytes)) break
      count += 1
      if (isAlone || count === MOST_ENTRIES) break
    }
    return due.splice(0, count)
  }

  async #send(destination: Destination, places: readonly number[]): Promise<void> {
    const { services, slots } = this.#settings
    try {
      const messages = places.map((place) => this.#outgoing.get(place)!.message)
      const answer = await sendBatch(services, destination, messages, this.#lifetime.signal)
      if (this.#isOver) return
      if ('kind' in answer) this.#refuseAll(destination, places, answer)
      else for (const [n, each] of answer.entries()) this.#answer(destination, places[n]!, each)
    } catch (error) {
      this.#end.reject(error)
    } finally {
      this.#inFlight -= 1
      slots.give()
      this.#pump()
    }
  }

  #refuseAll(destination: Destination, places: readonly number[], refused: Refusal): void {
    const isOfOne = refused.kind === 'invalid' || refused.kind === 'too-large'
    if (!isOfOne || places.length === 1) {
      for (const place of places) this.#answer(destination, place, refused)
      return
    }
    // One of the messages may be at fault, and the others can be sent without it.
    for (const place of places) this.#alone.add(place)
    this.#take(places)
  }

  #answer(destination: Destination, place: number, answer: Refusal | 'accepted'): void {
    const { seen } = this.#settings
    if (answer === 'accepted') {
      seen.add(destination.name)
      return this.#settle(place, ACCEPTED)
    }
    const { bytes } = this.#outgoing.get(place)!.message
    const about = { wasSeen: seen.has(destination.name), bytes }
    this.#settle(place, refusedResult(this.#batch.messages[place]!, destination, answer, about))
  }

  #settle(place: number, result: PublishResult): void {
    const next = this.#batch.settle(place, result)
    this.#answered?.(place, result)
    if (next !== undefined) this.#take([next])
  }

  #outgoingOf(place: number): Outgoing | PublishResult {
    const known = this.#outgoing.get(place)
    if (known !== undefined) return known
    const message = this.#batch.messages[place]!
    return outgoingOrRejected(() => {
      const name = destinationOf(message, 'destination', this.#settings.destinationOf)
      const destination = this.#destinations.get(name) ?? destinationOfMessage(message.id, name)
      this.#destinations.set(name, destination)
      const outgoing = { destination, message: outgoingMessage(message, this.#settings) }
      checkSize(message, outgoing)
      this.#outgoing.set(place, outgoing)
      return outgoing
    })
  }
}

function mostBytesOf({ service }: Destination): number {
  return service === 'SQS' ? SQS_BYTES : SNS_BYTES
}

/** @throws {PermanentError} for a message that is too large with its attributes. */
function checkSize({ id, payload }: OutboxMessage, { destination, message }: Outgoing): void {
  const mostBytes = mostBytesOf(destination)
  if (message.bytes <= mostBytes) return
  throw refusal(
    id,
    `it has ${message.bytes} bytes with its attributes, of a payload of ${payload.byteLength} bytes; ${destination.service} takes ` +
      `${mostBytes}. Store the data elsewhere and publish a reference to it`,
  )
}
