import type { ConnectionOptions } from 'node:tls'
import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within, type Connection } from '@txbox/core/internal'
import { Producer } from '@platformatic/kafka'
import { isStarting, reasonIn, refusalOfTopic, type Refusal } from './client-errors.ts'
import { addressOf, type ConnectionSettings } from './connection-settings.ts'
import { Patience } from './patience.ts'
import { Waves, type Chunk, type ChunkAnswer } from './waves.ts'

/** Metadata are asked for again after this time, and after each answer that says that they are out of date. */
const METADATA_AGE_MS = 300_000

/** The number of brokers that a connection attempt can try before its time is over. */
const TRIED_BROKERS = 3

/** How much of the time limit a leader waits for its replicas, so that its answer still comes in time. */
const REPLICAS_SHARE = 0.8

/** A topic, or why it cannot be used at the moment. */
export type FoundTopic =
  | { readonly partitions: number; readonly refusal?: never }
  | { readonly partitions?: never; readonly refusal: Refusal }

/** A client with its connections to brokers, which all calls share. It is dropped as a whole when one of its requests fails. */
export class KafkaConnection implements Connection {
  readonly #producer: Producer
  readonly #settings: ConnectionSettings
  readonly #waves: Waves
  #failure: BrokerUnavailableError | undefined

  private constructor(producer: Producer, settings: ConnectionSettings, lifetime: AbortController) {
    this.#producer = producer
    this.#settings = settings
    this.#waves = new Waves(producer, settings, (error) => this.fail(error))
    lifetime.signal.addEventListener('abort', () => this.drop(this.#broken(lifetime.signal.reason)), {
      once: true,
    })
  }

  /**
   * Connects to one of the brokers and logs in. Aborting `lifetime` ends the attempt, and later the connections, at once.
   *
   * @param turn the number of the attempt: each one begins with another broker.
   * @throws {BrokerUnavailableError} when no broker can be used within `connectTimeoutMs`.
   */
  static async open(
    settings: ConnectionSettings,
    lifetime: AbortController,
    turn: number,
  ): Promise<KafkaConnection> {
    const connection = new KafkaConnection(createProducer(settings, turn), settings, lifetime)
    try {
      await within(unlessAborted(connection.#ask(), lifetime.signal), settings.connectTimeoutMs, unanswered)
      return connection
    } catch (error) {
      const unavailable = cannotConnect(settings, error)
      connection.drop(unavailable)
      throw lifetime.signal.aborted ? lifetime.signal.reason : unavailable
    }
  }

  get failure(): BrokerUnavailableError | undefined {
    return this.#failure
  }

  /**
   * Checks that a broker answers.
   *
   * @throws {BrokerUnavailableError} when none does within `connectTimeoutMs`; the message says why.
   */
  async check(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    try {
      await within(this.#ask(), this.#settings.connectTimeoutMs, unanswered)
    } catch (error) {
      throw this.#failure ?? cannotConnect(this.#settings, error)
    }
  }

  /**
   * Looks a topic up.
   *
   * @param isFresh asks Kafka again, because an answer said that what is known of the topic is out of date.
   * @throws {BrokerUnavailableError} when that fails for a reason that is not the topic's.
   */
  async find(topic: string, isFresh: boolean): Promise<FoundTopic> {
    if (this.#failure !== undefined) throw this.#failure
    try {
      const asked = this.#producer.metadata({ topics: [topic], forceUpdate: isFresh })
      const metadata = await within(asked, this.#settings.confirmTimeoutMs, unanswered)
      const partitions = metadata.topics.get(topic)?.partitionsCount ?? 0
      return partitions === 0 ? { refusal: { code: 3 } } : { partitions }
    } catch (error) {
      const refusal = refusalOfTopic(error)
      if (refusal === undefined) throw this.fail(error)
      // The client would remember what it knew of the topic before.
      if (isFresh) this.#producer.clearMetadata()
      return { refusal }
    }
  }

  /**
   * Sends records of one partition as one batch, which Kafka stores as a whole or not at all. Batches of one partition are sent one
   * after the other, in the order of the calls.
   *
   * @param signal takes the batch back, if it was not sent yet.
   * @throws {BrokerUnavailableError} when it is unknown whether the records are stored.
   */
  async send(chunk: Chunk, signal: AbortSignal): Promise<ChunkAnswer> {
    if (this.#failure !== undefined) throw this.#failure
    return await this.#waves.send(chunk, signal)
  }

  /** Must be called when the result of records is unknown. Drops the connection. @returns the error of all its calls. */
  fail(error: unknown): BrokerUnavailableError {
    this.drop(this.#broken(error))
    return this.#failure!
  }

  drop(reason: BrokerUnavailableError): void {
    if (this.#failure !== undefined) return
    this.#end(reason)
  }

  close(reason: BrokerUnavailableError): Promise<void> {
    this.drop(reason)
    return Promise.resolve()
  }

  /** Whether some broker can be reached, takes the login, and lets the user produce. */
  async #ask(): Promise<void> {
    await this.#producer.metadata({ topics: [], forceUpdate: true })
    if (!this.#settings.idempotent) return
    const patience = new Patience()
    while (this.#producer.producerId === undefined) {
      try {
        await this.#producer.initIdempotentProducer({})
      } catch (error) {
        if (!isStarting(error) || !(await patience.wait())) throw error
      }
    }
  }

  #broken(error: unknown): BrokerUnavailableError {
    if (error instanceof BrokerUnavailableError) return error
    return new BrokerUnavailableError(
      `Publishing to Kafka at ${addressOf(this.#settings)} failed: ${reasonIn(error, secretsOf(this.#settings))}. The result of the ` +
        'messages in flight is unknown.',
      { cause: error },
    )
  }

  #end(reason: BrokerUnavailableError): void {
    this.#failure = reason
    this.#waves.fail(reason)
    // Without this, the client would first send what is in the buffers of its sockets.
    for (const [, { socket }] of this.#producer.connections) socket?.destroy()
    this.#producer.close(true).catch(() => undefined)
  }
}

function createProducer(settings: ConnectionSettings, turn: number): Producer {
  const { brokers, clientId, idempotent, confirmTimeoutMs, connectTimeoutMs } = settings
  const { tls, tlsServerName, sasl } = settings
  const first = turn % brokers.length
  return new Producer({
    clientId,
    bootstrapBrokers: [...brokers.slice(first), ...brokers.slice(0, first)],
    ...(tls === undefined ? {} : { tls: tls as ConnectionOptions, tlsServerName: tlsServerName! }),
    ...(sasl === undefined ? {} : { sasl }),
    idempotent,
    // The relay repeats. With `idempotent`, the client would take 0 for no limit.
    retries: false,
    repeatOnStaleMetadata: false,
    autocreateTopics: false,
    metadataMaxAge: METADATA_AGE_MS,
    timeout: Math.ceil(confirmTimeoutMs * REPLICAS_SHARE),
    requestTimeout: confirmTimeoutMs,
    connectTimeout: Math.ceil(connectTimeoutMs / Math.min(brokers.length, TRIED_BROKERS)),
  })
}

function cannotConnect(settings: ConnectionSettings, error: unknown): BrokerUnavailableError {
  if (error instanceof BrokerUnavailableError) return error
  return new BrokerUnavailableError(
    `Cannot connect to Kafka at ${addressOf(settings)}: ${reasonIn(error, secretsOf(settings))}. Check that it runs there, and the ` +
      "options 'brokers', 'tls' and 'sasl'.",
    { cause: error },
  )
}

function secretsOf({ sasl }: ConnectionSettings): readonly string[] {
  return sasl !== undefined && 'password' in sasl ? [sasl.password] : []
}

function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}
