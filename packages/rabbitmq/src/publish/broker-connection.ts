import { BrokerUnavailableError } from '@txbox/core'
import { within, type Connection } from '@txbox/core/internal'
import type { ChannelModel, ConfirmChannel } from 'amqplib'
import { ConfirmingChannel } from './confirming-channel.ts'
import { connectBroker, type ConnectSettings } from '../connection/connect-broker.ts'
import { GatheredWrites } from '../connection/gathered-writes.ts'
import { reasonOf, replyCodeOf } from '../connection/reason-of.ts'

const CLOSE_TIMEOUT_MS = 2000

/**
 * The maximum number of frames in the buffer of a channel. A frame has up to 128 KiB, so this bounds the memory that large
 * messages take.
 */
const BUFFERED_FRAMES = 256

/** The maximum size of one write. */
const SOCKET_BYTES = 262_144

export interface ConnectionSettings extends ConnectSettings {
  readonly exchange: string
  /** `undefined`: the exchange is not asserted. */
  readonly assertedType: string | undefined
}

/** A connection with the channel that all calls share. It never reconnects: after a failure, another one is opened. */
export class BrokerConnection implements Connection {
  readonly #model: ChannelModel
  readonly #settings: ConnectionSettings
  /** Aborted to destroy the socket, so that no buffered message is sent later. */
  readonly #lifetime: AbortController
  readonly #channels = new Set<ConfirmingChannel>()
  #shared: ConfirmingChannel | undefined
  #failure: BrokerUnavailableError | undefined
  #blocked: string | undefined
  readonly #writes: GatheredWrites

  private constructor(model: ChannelModel, settings: ConnectionSettings, lifetime: AbortController) {
    this.#model = model
    this.#settings = settings
    this.#lifetime = lifetime
    this.#writes = new GatheredWrites(model)
    model.on('error', (error) => this.#broke(error))
    model.on('close', (error) => this.#broke(error))
    model.on('blocked', (reason) => (this.#blocked = reason))
    model.on('unblocked', () => (this.#blocked = undefined))
  }

  /**
   * Connects, and asserts the exchange. Aborting `lifetime` ends the attempt, and later the connection, at once.
   *
   * @throws {BrokerUnavailableError} when the connection cannot be opened.
   */
  static async open(settings: ConnectionSettings, lifetime: AbortController): Promise<BrokerConnection> {
    const socket = {
      writableHighWaterMark: SOCKET_BYTES,
      clientProperties: { connection_name: 'txbox publisher' },
    }
    return connectBroker(settings, lifetime, socket, async (model) => {
      const connection = new BrokerConnection(model, settings, lifetime)
      await connection.#prepare()
      return connection
    })
  }

  /** Why the connection, or the channel that all calls share, can no longer be used. */
  get failure(): BrokerUnavailableError | undefined {
    return this.#failure ?? this.channel.failure
  }

  /** The channel that all calls share. */
  get channel(): ConfirmingChannel {
    if (this.#shared === undefined) throw new Error('The connection is not open yet.')
    return this.#shared
  }

  /** The broker's reason for blocking publishers at the moment: it is short of memory or disk space. */
  get blocked(): string | undefined {
    return this.#blocked
  }

  /** Opens a separate channel: if the broker closes the channel because of a message, other calls continue. */
  async openChannel(): Promise<ConfirmingChannel> {
    try {
      const raw = await this.#model.createConfirmChannel({ highWaterMark: BUFFERED_FRAMES })
      const channel = this.#confirming(raw)
      this.#channels.add(channel)
      channel.onFailure(() => void this.#channels.delete(channel))
      return channel
    } catch (error) {
      throw this.#failure ?? this.#broken(error)
    }
  }

  /** Whether the broker answers at all. */
  async answers(limitMs: number): Promise<boolean> {
    if (this.failure !== undefined || this.#blocked !== undefined) return false
    const probe = this.#model.createChannel().then((channel) => channel.close())
    const answered = probe.then(
      () => true,
      () => false,
    )
    return await within(answered, limitMs, () => false, { ref: false })
  }

  /**
   * Checks that the broker accepts messages for the exchange. Uses a separate channel, because the broker closes the
   * channel when there is no such exchange.
   *
   * @throws {BrokerUnavailableError} when the broker does not; the message says why.
   */
  async check(): Promise<void> {
    const { address, exchange, connectTimeoutMs } = this.#settings
    if (this.#failure !== undefined) throw this.#failure
    if (this.#blocked !== undefined) {
      throw new BrokerUnavailableError(
        `RabbitMQ at ${address.name} has blocked publishers: ${this.#blocked}. Give it more memory or disk.`,
      )
    }
    try {
      const asked = this.#ask(exchange)
      if ((await within(asked, connectTimeoutMs, () => 'late', { ref: false })) === undefined) return
    } catch (error) {
      if (replyCodeOf(error) === undefined) throw this.#failure ?? this.#broken(error)
      throw new BrokerUnavailableError(
        `RabbitMQ at ${address.name} does not accept messages for the exchange '${exchange}': ${reasonOf(error)}.`,
        { cause: error },
      )
    }
    throw new BrokerUnavailableError(
      `RabbitMQ at ${address.name} did not answer within ${connectTimeoutMs} ms.`,
    )
  }

  async #ask(exchange: string): Promise<void> {
    const channel = await this.#model.createChannel()
    // The broker's refusal also arrives as an event, which would end the process if nothing listened.
    channel.on('error', () => undefined)
    if (exchange !== '') await channel.checkExchange(exchange)
    await channel.close()
  }

  /** Ends the connection at once. Calls in flight fail with `reason`. */
  drop(reason: BrokerUnavailableError): void {
    // The connection has ended already, or is being closed: a call that fails because of that must not interrupt the closing.
    if (this.#failure !== undefined) return
    this.#end(reason)
    this.#lifetime.abort(reason)
  }

  /** Closes the connection as the protocol prescribes. Calls in flight fail with `reason`. */
  async close(reason: BrokerUnavailableError): Promise<void> {
    const alive = this.#failure === undefined
    this.#end(reason)
    if (alive) {
      // If the connection breaks meanwhile, the broker never answers, but the client emits this event.
      const gone = new Promise<void>((resolve) => void this.#model.once('close', () => resolve()))
      this.#model.close().catch(() => undefined)
      await within(gone, CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
    }
    this.#lifetime.abort(reason)
  }

  async #prepare(): Promise<void> {
    const { address, exchange, assertedType } = this.#settings
    const channel = await this.#model.createConfirmChannel({ highWaterMark: BUFFERED_FRAMES })
    this.#shared = this.#confirming(channel)
    this.#channels.add(this.#shared)
    if (assertedType === undefined) return
    try {
      await channel.assertExchange(exchange, assertedType, { durable: true })
    } catch (error) {
      if (replyCodeOf(error) === undefined) throw error
      throw new BrokerUnavailableError(
        `RabbitMQ at ${address.name} does not have the exchange '${exchange}' as a durable exchange of type ` +
          `'${assertedType}', and does not create it: ${reasonOf(error)}. Set 'exchangeType' to the existing type, or ` +
          "'assertExchange' to false to use the exchange unchanged.",
        { cause: error },
      )
    }
  }

  #confirming(channel: ConfirmChannel): ConfirmingChannel {
    const { exchange, address } = this.#settings
    const frameMax: unknown = Reflect.get(this.#model.connection, 'frameMax')
    return new ConfirmingChannel(channel, {
      exchange,
      broker: address.name,
      frameMax: typeof frameMax === 'number' ? frameMax : Infinity,
      gather: this.#writes.gather,
    })
  }

  #broke(error: unknown): void {
    this.#end(this.#broken(error))
    this.#lifetime.abort()
  }

  #broken(error: unknown): BrokerUnavailableError {
    return new BrokerUnavailableError(
      `The connection to RabbitMQ at ${this.#settings.address.name} broke: ` +
        `${error === undefined ? 'it was closed' : reasonOf(error)}. The result of the messages in flight is unknown.`,
      { cause: error },
    )
  }

  #end(error: BrokerUnavailableError): void {
    this.#failure ??= error
    for (const channel of this.#channels) channel.fail(this.#failure)
    this.#channels.clear()
  }
}
