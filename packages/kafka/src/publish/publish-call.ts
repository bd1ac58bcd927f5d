import type { OutboxMessage, PublishOptions, PublishResult } from '@txbox/core'
import { destinationOf, outgoingOrRejected, type OrderedBatch } from '@txbox/core/internal'
import { isPassing, type Refusal } from '../connection/client-errors.ts'
import type { KafkaConnection } from '../connection/kafka-connection.ts'
import { Patience } from '../connection/patience.ts'
import { partitionName, type PartitionAnswer } from '../connection/produce-answers.ts'
import type { KnownTopics } from './known-topics.ts'
import { outgoingRecord, type OutgoingRecord } from './outgoing-record.ts'
import type { Partitions } from './partitions.ts'
import { PlacedChunk } from './placed-chunk.ts'
import { blamesRecord, blamesSize, isMeaningful, refusedResult } from './verdicts.ts'

const ACCEPTED: PublishResult = { status: 'accepted' }

export interface CallSettings {
  readonly topicOf: (message: OutboxMessage) => unknown
  readonly maxMessageBytes: number
  readonly topics: KnownTopics
  readonly partitions: Partitions
}

/**
 * Publishes the messages of one call. Topics do not wait for each other. Of each key, the next message is sent when the one before is
 * accepted, or in the same batch of Kafka, which is stored as a whole or not at all.
 */
export class PublishCall {
  readonly #connection: KafkaConnection
  readonly #batch: OrderedBatch
  readonly #settings: CallSettings
  readonly #answered: PublishOptions['answered']
  readonly #records = new Map<number, OutgoingRecord | PublishResult>()
  /** Messages because of which Kafka refused a batch. */
  readonly #culprits = new Map<number, PublishResult>()
  /** The places of messages that are sent in batches of their own. */
  readonly #alone = new Set<number>()
  /** The places of the messages that may be sent, by topic. Each topic has a flow as long as it is in this map. */
  readonly #due = new Map<string, number[]>()
  readonly #lifetime = new AbortController()
  readonly #end = Promise.withResolvers<void>()

  constructor(
    connection: KafkaConnection,
    batch: OrderedBatch,
    settings: CallSettings,
    answered: PublishOptions['answered'],
  ) {
    this.#connection = connection
    this.#batch = batch
    this.#settings = settings
    this.#answered = answered
    // A flow may fail after the call has thrown for another reason.
    this.#end.promise.catch(() => undefined)
  }

  /** @throws {BrokerUnavailableError} when the connection fails; the signal's reason when the signal is aborted. */
  async run(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const { ended } = this.#connection
    const abort = (): void => this.#end.reject(signal.reason)
    const broken = (): void => this.#end.reject(ended.reason)
    signal.addEventListener('abort', abort, { once: true })
    ended.addEventListener('abort', broken, { once: true })
    try {
      ended.throwIfAborted()
      this.#take(this.#batch.due())
      if (this.#due.size === 0) this.#end.resolve()
      await this.#end.promise
    } finally {
      // From now on no message is sent, and no result is reported.
      this.#lifetime.abort()
      signal.removeEventListener('abort', abort)
      ended.removeEventListener('abort', broken)
    }
  }

  get #isOver(): boolean {
    return this.#lifetime.signal.aborted
  }

  /** Lets the messages at these places be sent, or rejects them if they cannot be. */
  #take(places: readonly number[]): void {
    for (const place of places) {
      const record = this.#culprits.get(place) ?? this.#recordOf(place)
      if ('status' in record) {
        this.#settle(place, record)
        continue
      }
      const due = this.#due.get(record.topic)
      if (due !== undefined) due.push(place)
      else {
        const first = [place]
        this.#due.set(record.topic, first)
        void this.#run(record.topic, first)
      }
    }
  }

  #recordOf(place: number): OutgoingRecord | PublishResult {
    const known = this.#records.get(place)
    if (known !== undefined) return known
    const record = this.#recordOrRejection(this.#batch.messages[place]!)
    this.#records.set(place, record)
    return record
  }

  #recordOrRejection(message: OutboxMessage): OutgoingRecord | PublishResult {
    const { topicOf, maxMessageBytes } = this.#settings
    return outgoingOrRejected(() =>
      outgoingRecord(message, destinationOf(message, 'topic', topicOf), maxMessageBytes),
    )
  }

  async #run(topic: string, due: number[]): Promise<void> {
    try {
      await this.#flow(topic, due)
      if (this.#due.size === 0) this.#end.resolve()
    } catch (error) {
      this.#end.reject(error)
    }
  }

  /** Sends what is due for a topic, wave by wave, until nothing is. */
  async #flow(topic: string, due: number[]): Promise<void> {
    const patience = new Patience()
    while (due.length > 0) {
      const { refusal, partitions } = await this.#connection.find(topic)
      if (this.#isOver) return
      if (refusal === undefined) await this.#sendDue(topic, due, partitions, patience)
      else if (!(await this.#mayWait([topic], refusal, patience))) this.#refuse(due.splice(0), topic, refusal)
      if (this.#isOver) return
    }
    // Must follow the check without a wait: a message that becomes due from now on needs another flow.
    this.#due.delete(topic)
  }

  /** Sends at most one chunk for each partition. Partitions whose leader has moved are waited for. */
  async #sendDue(topic: string, due: number[], partitions: number, patience: Patience): Promise<void> {
    const passing: { readonly chunk: PlacedChunk; readonly answer: PartitionAnswer }[] = []
    const sending = this.#chunksOf(topic, due, partitions).map(async (chunk) => {
      const answer = await this.#connection.send(chunk, this.#lifetime.signal)
      if (this.#isOver) return
      if (answer === 'unsent') this.#take(chunk.heads)
      else if (isPassing(answer.code)) passing.push({ chunk, answer })
      else this.#answer(chunk, answer)
    })
    await Promise.all(sending)
    if (passing.length === 0 || this.#isOver) return
    const names = passing.map(({ chunk }) => partitionName(topic, chunk.partition))
    const isWorthwhile = names.map((name) => !this.#settings.topics.isMissing(name))
    const mayRepeat = await this.#mayWait(names, passing[0]!.answer, patience)
    if (this.#isOver) return
    for (const [n, { chunk, answer }] of passing.entries()) {
      if (mayRepeat && isWorthwhile[n]!) this.#take(chunk.heads)
      else this.#refuse(chunk.places, topic, answer)
    }
  }

  /**
   * Waits for a topic that was just made, or for partitions whose leader just moved, unless an earlier call has waited for all of them in
   * vain. @returns whether to try again.
   */
  async #mayWait(names: readonly string[], { code }: Refusal, patience: Patience): Promise<boolean> {
    const { topics } = this.#settings
    if (!isPassing(code)) return false
    if (names.some((name) => !topics.isMissing(name)) && (await patience.wait(this.#lifetime.signal)))
      return true
    for (const name of names) topics.missed(name)
    return false
  }

  /** Takes out of `due` what can be sent together: at most one chunk for each partition. */
  #chunksOf(topic: string, due: number[], partitions: number): readonly PlacedChunk[] {
    const mostBytes = this.#settings.topics.chunkBytes(topic)
    const chunks = new Map<number, PlacedChunk>()
    const later: number[] = []
    for (const place of due.splice(0).sort((a, b) => a - b)) {
      const record = this.#records.get(place) as OutgoingRecord
      const partition = this.#settings.partitions.of(record.key, partitions)
      const existing = chunks.get(partition)
      const isAlone = this.#alone.has(place)
      if (existing !== undefined && (isAlone || !existing.hasRoomFor(record))) {
        later.push(place)
        continue
      }
      const chunk = existing ?? new PlacedChunk({ topic, partition, partitions }, mostBytes)
      chunks.set(partition, chunk)
      chunk.heads.push(place)
      chunk.add(place, record)
      if (isAlone) chunk.close()
      else this.#addFollowing(place, chunk)
    }
    due.push(...later)
    return [...chunks.values()]
  }

  /** Adds the next messages of the same key to a chunk, as far as they can be sent with it. */
  #addFollowing(head: number, chunk: PlacedChunk): void {
    for (let place = this.#batch.after(head); place !== undefined; place = this.#batch.after(place)) {
      if (this.#alone.has(place) || this.#culprits.has(place)) return
      const record = this.#recordOf(place)
      if ('status' in record || record.topic !== chunk.topic || !chunk.hasRoomFor(record)) return
      chunk.add(place, record)
    }
  }

  /** @throws {BrokerUnavailableError} when the answer leaves open whether the records are stored. */
  #answer(chunk: PlacedChunk, answer: PartitionAnswer): void {
    const { topic, places } = chunk
    const { code, text } = answer
    if (code === 0) {
      this.#settings.topics.accepted(topic, chunk.partition)
      for (const place of places) this.#settle(place, ACCEPTED, chunk)
    } else if (blamesRecord(code) && places.length > 1) this.#divide(chunk, answer)
    else if (code === 2 && !this.#alone.has(places[0]!)) {
      // A record that was damaged in flight is sent once more.
      this.#alone.add(places[0]!)
      this.#take(places)
    } else if (isMeaningful(answer)) {
      const [own] = answer.culprits.values()
      this.#refuse(places, topic, { code, text: text ?? own })
    } else {
      const said = text === undefined ? '' : ` (${text})`
      throw this.#connection.fail(new Error(`it answered with the code ${code} for topic '${topic}'${said}`))
    }
  }

  /** Kafka stored none of the records of a chunk because of one of them: the others are sent without it. */
  #divide(chunk: PlacedChunk, { code, text, culprits }: PartitionAnswer): void {
    const { topic, places } = chunk
    const named = [...culprits].filter(([index]) => places[index] !== undefined)
    for (const [index, own] of named) {
      const place = places[index]!
      this.#culprits.set(place, this.#refusal(place, topic, { code, text: own === '' ? text : own }))
    }
    if (named.length === 0) {
      if (blamesSize(code)) this.#settings.topics.tooLarge(topic, chunk.bytes)
      else for (const place of places) this.#alone.add(place)
    }
    this.#take(chunk.heads)
  }

  #refuse(places: readonly number[], topic: string, refusal: Refusal): void {
    if (!isMeaningful(refusal)) {
      throw this.#connection.fail(new Error(`it answered with the code ${refusal.code} for topic '${topic}'`))
    }
    for (const place of places) {
      // Later messages of a key are skipped.
      if (this.#batch.results[place] === undefined) this.#settle(place, this.#refusal(place, topic, refusal))
    }
  }

  #refusal(place: number, topic: string, refusal: Refusal): PublishResult {
    const { bytes } = this.#records.get(place) as OutgoingRecord
    const wasSeen = this.#settings.topics.wasSeen(topic)
    return refusedResult(this.#batch.messages[place]!, topic, refusal, { wasSeen, bytes })
  }

  /** @param chunk the chunk of the message, whose other messages have the same result. */
  #settle(place: number, result: PublishResult, chunk?: PlacedChunk): void {
    const next = this.#batch.settle(place, result)
    this.#answered?.(place, result)
    if (next !== undefined && chunk?.has(next) !== true) this.#take([next])
  }
}
