import { createHash } from 'node:crypto'
import { createWriteStream, type WriteStream } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import amqp, { type ChannelModel, type ConfirmChannel, type ConsumeMessage } from 'amqplib'
import { Draw } from '../draw.ts'
import {
  CALLED_AT_HEADER,
  DEAD_QUEUE,
  EXCHANGE,
  RECORD_QUEUE,
  RELAY_HEADER,
  WORK_QUEUE,
  type Change,
} from '../workers/worker-protocol.ts'

/** One copy of a message, as the broker delivered it. */
export interface Copy {
  /** The place of the copy in the record, from 0 on. */
  readonly at: number
  readonly id: string
  readonly key: string | undefined
  /** The process that published the copy. */
  readonly relay: string
  /** When that process called its publisher, and when the copy was recorded: ms since 1970. */
  readonly calledAtMs: number
  readonly recordedAtMs: number
  /** The change that the message makes: its key with the epoch, and its place there. Absent without an order. */
  readonly change?: { readonly chain: string; readonly place: number }
  /** A hash of the body and the headers that the producer set. */
  readonly digest: string
}

function changeOf(content: Buffer): Pick<Copy, 'change'> {
  const { versionKey: chain, to: place } = JSON.parse(content.toString()) as Partial<Change>
  return chain === undefined || place === undefined ? {} : { change: { chain, place } }
}

/** The body of a message without the illness that its handler suffers from. */
function healed(content: Buffer): Buffer {
  const { ill: _, ...change } = JSON.parse(content.toString()) as Change
  return Buffer.from(JSON.stringify(change))
}

export interface DeliveryFaults {
  /** Shares of the deliveries, 0 to 1. */
  readonly duplicate: number
  readonly hold: number
}

/** The headers with the ordering key, as the publisher writes it, and with the error of a dead letter. */
const KEY_HEADER = 'txbox-key'
const ERROR_HEADER = 'txbox-error'
const KEPT_FOR_REDELIVERY = 500
const MOST_HELD = 50

/**
 * The recording broker: takes every message that the relays have published out of RabbitMQ, in the order of the queue,
 * writes it down, and passes it on to the consumers; twice, late or in another order where a fault says so.
 */
export class Recorder {
  readonly copies: Copy[] = []
  /** The first copy of each message. */
  readonly first = new Map<string, Copy>()
  /** The messages that a consumer made dead letters, each with its error. */
  readonly deadLetters = new Map<string, string>()
  readonly #bodies = new Map<string, Buffer>()
  readonly #url: () => string
  readonly #file: WriteStream
  readonly #draw: Draw
  readonly #held: ConsumeMessage[] = []
  faults: DeliveryFaults = { duplicate: 0, hold: 0 }
  /** Deliveries beyond the first that the recorder made by itself. */
  extraDeliveries = 0
  #connection: ChannelModel | undefined
  #channel: ConfirmChannel | undefined
  #isClosed = false
  #loop: Promise<void> = Promise.resolve()

  /** @param url the address of the broker past all faults of the network. */
  constructor(url: () => string, file: string, seed: number) {
    this.#url = url
    this.#file = createWriteStream(file)
    this.#draw = new Draw(`${seed} recorder`)
  }

  /** Creates the queues, and records from then on; reconnects when the connection breaks. */
  async start(): Promise<void> {
    const begun = Promise.withResolvers<void>()
    this.#loop = (async () => {
      while (!this.#isClosed) {
        try {
          await this.#record(() => begun.resolve())
        } catch (error) {
          this.lastError = error
        }
        this.#channel = undefined
        await pause(100)
      }
    })()
    await begun.promise
  }

  /** Why the connection to the broker was last lost. */
  lastError: unknown

  get isConnected(): boolean {
    return this.#channel !== undefined
  }

  /** Delivers recorded messages again: for example all copies of lost messages. */
  async redeliver(ids: readonly string[]): Promise<number> {
    let count = 0
    for (const id of ids) {
      const body = this.#bodies.get(id)
      if (body === undefined) continue
      await this.#deliver(id, body)
      count += 1
    }
    this.extraDeliveries += count
    return count
  }

  /** Delivers some of the latest messages again, in any order. */
  async redeliverLatest(count: number, draw: Draw): Promise<number> {
    const latest = [...new Set(this.copies.slice(-KEPT_FOR_REDELIVERY).map(({ id }) => id))]
    return this.redeliver(draw.shuffled(latest).slice(0, count))
  }

  /** Delivers what a fault has held back, in another order. */
  async letGo(): Promise<void> {
    for (const message of this.#draw.shuffled(this.#held.splice(0))) {
      await this.#deliver(String(message.properties.messageId), message.content)
    }
  }

  /** Messages that wait in the queues, ready or delivered to a consumer that has not acknowledged them. */
  async backlog(): Promise<number> {
    const channel = await this.#connection!.createChannel()
    const record = await channel.checkQueue(RECORD_QUEUE)
    const work = await channel.checkQueue(WORK_QUEUE)
    const dead = await channel.checkQueue(DEAD_QUEUE)
    await channel.close()
    return record.messageCount + work.messageCount + dead.messageCount + this.#held.length
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#connection?.close().catch(() => undefined)
    await this.#loop
    await new Promise((resolve) => this.#file.end(resolve))
  }

  async #record(begun: () => void): Promise<void> {
    const connection = await amqp.connect(this.#url(), { timeout: 3000 })
    this.#connection = connection
    const ended = new Promise<void>((resolve) => {
      connection.on('error', (error) => (this.lastError = error))
      connection.on('close', () => resolve())
    })
    const channel = await connection.createConfirmChannel()
    channel.on('error', (error) => (this.lastError = error))
    await channel.assertExchange(EXCHANGE, 'topic', { durable: true })
    await channel.assertQueue(RECORD_QUEUE, { durable: true })
    await channel.assertQueue(WORK_QUEUE, { durable: true })
    await channel.assertQueue(DEAD_QUEUE, { durable: true })
    await channel.bindQueue(RECORD_QUEUE, EXCHANGE, '#')
    await channel.prefetch(100)
    this.#channel = channel
    await channel.consume(RECORD_QUEUE, (message) => {
      if (message !== null) this.#take(channel, message)
    })
    await channel.consume(DEAD_QUEUE, (message) => {
      if (message !== null) this.#revive(channel, message)
    })
    begun()
    await ended
  }

  /** Synchronous up to the sending, so that the order of the queue is the order of the record and of the deliveries. */
  #take(channel: ConfirmChannel, message: ConsumeMessage): void {
    const id = String(message.properties.messageId)
    // The copy was recorded before the connection broke, and not acknowledged: it does not count twice.
    const isKnown = message.fields.redelivered && this.first.has(id)
    if (!isKnown) this.#write(id, message)
    if (this.#held.length < MOST_HELD && this.#draw.chance(this.faults.hold)) {
      this.#held.push(message)
      channel.ack(message)
      return
    }
    const times = this.#draw.chance(this.faults.duplicate) ? 2 : 1
    this.extraDeliveries += times - 1
    const sent = Array.from({ length: times }, () => this.#send(channel, id, message.content))
    // A message that is not acknowledged is delivered again over the next connection.
    Promise.all(sent).then(
      () => channel.ack(message),
      (error: unknown) => void (this.lastError = error),
    )
  }

  /**
   * Records a dead letter of a consumer, and delivers it again without its illness, as an operator would: later changes
   * of its key wait for it in the version buffer.
   */
  #revive(channel: ConfirmChannel, message: ConsumeMessage): void {
    const id = String(message.properties.messageId)
    const headers = (message.properties.headers ?? {}) as Record<string, unknown>
    this.deadLetters.set(id, String(headers[ERROR_HEADER]))
    this.extraDeliveries += 1
    this.#send(channel, id, healed(message.content)).then(
      () => channel.ack(message),
      (error: unknown) => void (this.lastError = error),
    )
  }

  #write(id: string, { content, properties }: ConsumeMessage): void {
    const headers = (properties.headers ?? {}) as Record<string, unknown>
    const { [RELAY_HEADER]: relay, [CALLED_AT_HEADER]: calledAt, ...own } = headers
    const key = headers[KEY_HEADER] as string | undefined
    const copy: Copy = {
      at: this.copies.length,
      id,
      key,
      relay: String(relay),
      calledAtMs: Number(calledAt),
      recordedAtMs: Date.now(),
      ...changeOf(content),
      digest: createHash('sha256')
        .update(content)
        .update(JSON.stringify(own))
        .digest('base64url')
        .slice(0, 16),
    }
    this.copies.push(copy)
    this.#file.write(`${JSON.stringify(copy)}\n`)
    if (!this.first.has(id)) {
      this.first.set(id, copy)
      this.#bodies.set(id, content)
    }
  }

  /** Resolves when the broker has the message on disk. */
  #send(channel: ConfirmChannel, id: string, body: Buffer): Promise<void> {
    const key = this.first.get(id)?.key
    const headers = key === undefined ? {} : { [KEY_HEADER]: key }
    return new Promise((resolve, reject) => {
      const options = { messageId: id, contentType: 'application/json', persistent: true, headers }
      channel.sendToQueue(WORK_QUEUE, body, options, (error: unknown) => (error ? reject(error) : resolve()))
    })
  }

  /** Repeats the work, however often the connection breaks. */
  async #deliver(id: string, body: Buffer): Promise<void> {
    while (!this.#isClosed) {
      const channel = this.#channel
      try {
        if (channel === undefined) throw new Error('The broker is away.')
        return await this.#send(channel, id, body)
      } catch (error) {
        this.lastError = error
        await pause(100)
      }
    }
  }
}
