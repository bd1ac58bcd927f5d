import { BrokerUnavailableError } from '@txbox/core'
import type { ChannelModel, Options } from 'amqplib'
import { connectBroker, type ConnectSettings } from '../connection/connect-broker.ts'
import { GatheredWrites } from '../connection/gathered-writes.ts'
import { reasonOf } from '../connection/reason-of.ts'
import { BLAMED_WITH_OTHERS, PublishingChannel, type Publication } from './publishing-channel.ts'

/** How long the broker may take to confirm a message. */
const CONFIRM_TIMEOUT_MS = 30_000

/**
 * Publishes the messages that a source itself sends, such as dead letters. It has a connection of its own, which is opened when
 * it is first needed, and again after a failure: while the broker is short of memory, it stops reading from a connection that
 * publishes, and the acceptances of the source must still reach it.
 */
export class SourcePublishing {
  readonly #settings: ConnectSettings
  /** The name of the connection in RabbitMQ's management. */
  readonly #connectionName: string
  readonly #confirmTimeoutMs: number
  #connection: Connection | undefined
  /** Ends when the last message that is sent alone has its result. */
  #alone: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(settings: ConnectSettings, connectionName: string, confirmTimeoutMs = CONFIRM_TIMEOUT_MS) {
    this.#settings = settings
    this.#connectionName = connectionName
    this.#confirmTimeoutMs = confirmTimeoutMs
  }

  /**
   * Publishes a message as mandatory and persistent. Resolves when the broker has confirmed that each queue to which it was
   * routed has the message. Calls may overlap. A message may have been published although the promise rejects.
   *
   * @throws {RetryLaterError} when the message is refused for now: it is routed to no queue, there is no such exchange, the user
   *   may not write to it, a queue has refused the message, or the message was not confirmed within 30 s.
   * @throws {PermanentError} when the message is refused for good: it cannot be encoded in AMQP, or RabbitMQ does not accept it.
   * @throws {BrokerUnavailableError} when the connection cannot be opened, is lost, or was closed.
   */
  async publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: Options.Publish,
  ): Promise<void> {
    const publication = { exchange, routingKey, content, options }
    const connection = await this.#connected()
    if ((await (await connection.channel()).send(publication)) !== BLAMED_WITH_OTHERS) return
    const alone = this.#alone.then(() => this.#sendAlone(publication))
    this.#alone = alone.catch(() => undefined)
    await alone
  }

  /** Disconnects. Messages without a result are rejected. */
  close(): void {
    this.#isClosed = true
    this.#connection?.lifetime.abort(closedError(this.#settings))
  }

  /** Sends a message on a channel of its own, so that the broker can blame no other message. */
  async #sendAlone(publication: Publication): Promise<void> {
    const channel = await (await this.#connected()).openChannel()
    try {
      await channel.send(publication)
    } finally {
      await channel.close()
    }
  }

  async #connected(): Promise<Connection> {
    if (this.#isClosed) throw closedError(this.#settings)
    if (this.#connection?.lifetime.signal.aborted !== false) {
      this.#connection = new Connection(this.#settings, this.#connectionName, this.#confirmTimeoutMs)
    }
    return this.#connection
  }
}

/** One connection, and the channel that all messages share. It never reconnects. */
class Connection {
  /** Aborted when the connection has ended, and to end it. */
  readonly lifetime = new AbortController()
  readonly #settings: ConnectSettings
  readonly #model: Promise<ChannelModel>
  readonly #confirmTimeoutMs: number
  #writes: GatheredWrites | undefined
  #channel: Promise<PublishingChannel> | undefined

  constructor(settings: ConnectSettings, connectionName: string, confirmTimeoutMs: number) {
    this.#settings = settings
    this.#confirmTimeoutMs = confirmTimeoutMs
    const socket = { clientProperties: { connection_name: connectionName } }
    this.#model = connectBroker(settings, this.lifetime, socket, async (model) => {
      model.on('error', (error) => this.lifetime.abort(error))
      model.on('close', () => this.lifetime.abort())
      return model
    })
    this.#model.catch(() => undefined)
  }

  /** @throws {BrokerUnavailableError} when the connection cannot be opened, or has ended. */
  async channel(): Promise<PublishingChannel> {
    for (;;) {
      const opening = (this.#channel ??= this.openChannel())
      const channel = await opening
      if (channel.isUsable) return channel
      if (this.#channel === opening) this.#channel = undefined
    }
  }

  /** @throws {BrokerUnavailableError} when the connection cannot be opened, or has ended. */
  async openChannel(): Promise<PublishingChannel> {
    const model = await this.#model
    const { name: broker } = this.#settings.address
    const frameMax: unknown = Reflect.get(model.connection, 'frameMax')
    try {
      return new PublishingChannel(await model.createConfirmChannel(), {
        broker,
        frameMax: typeof frameMax === 'number' ? frameMax : Infinity,
        gather: (this.#writes ??= new GatheredWrites(model)).gather,
        confirmTimeoutMs: this.#confirmTimeoutMs,
      })
    } catch (error) {
      this.lifetime.abort(error)
      throw new BrokerUnavailableError(`RabbitMQ at ${broker} does not open a channel: ${reasonOf(error)}.`, {
        cause: error,
      })
    }
  }
}

function closedError({ address }: ConnectSettings): BrokerUnavailableError {
  return new BrokerUnavailableError(`The source of RabbitMQ at ${address.name} is closed.`)
}
