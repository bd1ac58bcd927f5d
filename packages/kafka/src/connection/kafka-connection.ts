import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within, type Connection } from '@txbox/core/internal'
import { Producer } from '@platformatic/kafka'
import { isPassing, reasonIn } from './client-errors.ts'
import type { Chunk } from './chunk.ts'
import { addressOf, clientOptions, secretsOf } from './client-settings.ts'
import type { ConnectionSettings } from './connection-settings.ts'
import { TopicLookup, type FoundTopic } from './topic-lookup.ts'
import { breakConnections, watchConnections } from './watched-connections.ts'
import { Waves, type ChunkAnswer } from './waves.ts'

/** Metadata are asked for again after this time, and after each answer that says that they are out of date. */
const METADATA_AGE_MS = 300_000

/** A client with its connections to brokers, which all calls share. It is dropped as a whole when one of its requests fails. */
export class KafkaConnection implements Connection {
  readonly #producer: Producer
  readonly #settings: ConnectionSettings
  readonly #waves: Waves
  readonly #ended = new AbortController()
  readonly #topics: TopicLookup
  #failure: BrokerUnavailableError | undefined

  private constructor(producer: Producer, settings: ConnectionSettings, lifetime: AbortController) {
    this.#producer = producer
    this.#settings = settings
    this.#topics = new TopicLookup(producer, settings.confirmTimeoutMs)
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

  /** Aborted with the failure, when the connection ends. */
  get ended(): AbortSignal {
    return this.#ended.signal
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
   * Looks a topic up. Asks Kafka again if an answer has said that the metadata of the topic are out of date.
   *
   * @throws {BrokerUnavailableError} when that fails for a reason that is not the topic's.
   */
  async find(topic: string): Promise<FoundTopic> {
    if (this.#failure !== undefined) throw this.#failure
    try {
      return await this.#topics.find(topic)
    } catch (error) {
      throw this.fail(error)
    }
  }

  /**
   * Sends records of one partition as one batch, which Kafka stores as a whole or not at all. Batches of one partition are sent one
   * after the other, in the order of the calls.
   *
   * @param signal takes the batch back. If it is in flight, the connection ends.
   * @throws {BrokerUnavailableError} when it is unknown whether the records are stored.
   */
  async send(chunk: Chunk, signal: AbortSignal): Promise<ChunkAnswer> {
    if (this.#failure !== undefined) throw this.#failure
    const answer = await this.#waves.send(chunk, signal)
    if (answer !== 'unsent' && isPassing(answer.code)) this.#topics.outdated(chunk.topic)
    return answer
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
    await this.#waves.requests.identity(this.ended)
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
    breakConnections(this.#producer.connections)
    // The connections are broken already, so closing may fail.
    this.#producer.close(true).catch(() => undefined)
    this.#ended.abort(reason)
  }
}

function createProducer(settings: ConnectionSettings, turn: number): Producer {
  const producer = new Producer({
    ...clientOptions(settings, turn),
    // The relay repeats.
    retries: false,
    metadataMaxAge: METADATA_AGE_MS,
    requestTimeout: settings.confirmTimeoutMs,
  })
  watchConnections(producer.connections)
  return producer
}

function cannotConnect(settings: ConnectionSettings, error: unknown): BrokerUnavailableError {
  if (error instanceof BrokerUnavailableError) return error
  return new BrokerUnavailableError(
    `Cannot connect to Kafka at ${addressOf(settings)}: ${reasonIn(error, secretsOf(settings))}. Check that it runs there, and the ` +
      "options 'brokers', 'tls' and 'sasl'.",
    { cause: error },
  )
}

function unanswered(ms: number): never {
  throw new Error(`it did not answer within ${ms} ms`)
}
