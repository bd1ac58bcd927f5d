import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted, within, type Connection } from '@txbox/core/internal'
import { createInbox, type NatsConnection } from '@nats-io/transport-node'
import { jetstreamManager, type JetStreamManager } from '@nats-io/jetstream'
import { apiCodeOf, reasonIn, violationIn } from '../connection/client-errors.ts'
import {
  INTERVALS_UNTIL_DEAD,
  cannotConnect,
  connectServer,
  unanswered,
} from '../connection/connect-server.ts'
import { Confirmations, type Confirmation } from './confirmations.ts'
import { InFlightWindow } from './in-flight-window.ts'
import type { PublisherSettings } from './nats-publisher-options.ts'
import type { OutgoingMessage } from './outgoing-message.ts'

const LONGEST_PING_INTERVAL_MS = 60_000
const STREAM_NOT_FOUND = 10_059

/** Whether a stream takes a subject. `'unknown'`: the user may not ask. */
export type StreamSearch = 'found' | 'missing' | 'unknown'

/** A connection to a server, which all calls share. It never reconnects, and is dropped as a whole when it fails. */
export class PublishConnection implements Connection {
  readonly #nc: NatsConnection
  readonly #manager: JetStreamManager
  readonly #settings: PublisherSettings
  readonly #confirmations: Confirmations
  readonly #window: InFlightWindow
  /** The searches for streams that are in flight, by subject. */
  readonly #searches = new Map<string, Promise<StreamSearch>>()
  #failure: BrokerUnavailableError | undefined

  private constructor(
    nc: NatsConnection,
    manager: JetStreamManager,
    settings: PublisherSettings,
    lifetime: AbortSignal,
  ) {
    this.#nc = nc
    this.#manager = manager
    this.#settings = settings
    this.#window = new InFlightWindow(settings.maxInFlight)
    const inbox = createInbox(settings.connection.inboxPrefix)
    const failed = (error: Error): void => void this.fail(error)
    this.#confirmations = new Confirmations(inbox, { timeoutMs: settings.confirmTimeoutMs, failed })
    nc.subscribe(`${inbox}.*`, {
      callback: (error, message) => {
        // The user may not subscribe to the inbox.
        if (error !== null) this.fail(error)
        else this.#confirmations.received(message)
      },
    })
    lifetime.addEventListener('abort', () => this.drop(this.#broken(lifetime.reason)), { once: true })
    void nc.closed().then((error) => this.fail(error ?? new Error('it was closed')))
    void this.#watchViolations()
  }

  /**
   * Connects, logs in, and checks that JetStream answers. Aborting `lifetime` ends the attempt, and later the connection, at once.
   *
   * @throws {BrokerUnavailableError} when no server can be used within `connectTimeoutMs`.
   */
  static async open(settings: PublisherSettings, lifetime: AbortController): Promise<PublishConnection> {
    const { connection, confirmTimeoutMs } = settings
    const nc = await connectServer(connection, {
      name: 'txbox publisher',
      pingIntervalMs: Math.min(LONGEST_PING_INTERVAL_MS, confirmTimeoutMs / INTERVALS_UNTIL_DEAD),
      lifetime: lifetime.signal,
    })
    const manager = await jetstreamManager(nc, { checkAPI: false, timeout: confirmTimeoutMs })
    const opened = new PublishConnection(nc, manager, settings, lifetime.signal)
    try {
      await unlessAborted(opened.check(), lifetime.signal)
      return opened
    } catch (error) {
      opened.drop(cannotConnect(connection, error))
      throw error
    }
  }

  get failure(): BrokerUnavailableError | undefined {
    return this.#failure
  }

  /** The largest message that the server and the options allow, payload and headers together. */
  get maxMessageBytes(): number {
    return Math.min(this.#settings.maxMessageBytes, this.#nc.info?.max_payload ?? Infinity)
  }

  /**
   * Checks that JetStream answers.
   *
   * @throws {BrokerUnavailableError} when it does not within `connectTimeoutMs`; the message says why.
   */
  async check(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    const { connection } = this.#settings
    try {
      await within(this.#manager.getAccountInfo(), connection.connectTimeoutMs, unanswered)
    } catch (error) {
      // A user who may only publish is not allowed to ask, and the refusal shows that the server answers.
      if (violationIn(error)?.operation === 'publish') return
      throw this.#failure ?? cannotConnect(connection, error)
    }
  }

  /**
   * Sends a message, and waits for its confirmation.
   *
   * @returns `'unsent'` if the signal was aborted before the message was sent.
   * @throws {BrokerUnavailableError} when it is unknown whether the message is stored.
   */
  async send(message: OutgoingMessage, signal: AbortSignal): Promise<Confirmation | 'unsent'> {
    const { subject, payload, headers, bytes } = message
    if (this.#failure !== undefined) throw this.#failure
    await this.#window.enter(bytes)
    try {
      if (signal.aborted) return 'unsent'
      if (this.#failure !== undefined) throw this.#failure
      const { reply, confirmation } = this.#confirmations.expect(subject)
      try {
        this.#nc.publish(subject, payload, { headers, reply })
      } catch (error) {
        this.fail(error)
      }
      return await confirmation
    } finally {
      this.#window.leave(bytes)
    }
  }

  /** @throws {BrokerUnavailableError} when JetStream does not answer. */
  find(subject: string): Promise<StreamSearch> {
    const existing = this.#searches.get(subject)
    if (existing !== undefined) return existing
    const search = this.#find(subject).finally(() => this.#searches.delete(subject))
    this.#searches.set(subject, search)
    return search
  }

  /** Must be called when the result of messages is unknown. Drops the connection. @returns the error of all its calls. */
  fail(error: unknown): BrokerUnavailableError {
    this.drop(this.#broken(error))
    return this.#failure!
  }

  drop(reason: BrokerUnavailableError): void {
    if (this.#failure !== undefined) return
    this.#failure = reason
    this.#confirmations.fail(reason)
    this.#window.fail(reason)
    void this.#nc.close()
  }

  close(reason: BrokerUnavailableError): Promise<void> {
    this.drop(reason)
    return Promise.resolve()
  }

  async #find(subject: string): Promise<StreamSearch> {
    try {
      await this.#manager.streams.find(subject)
      return 'found'
    } catch (error) {
      if (apiCodeOf(error) === STREAM_NOT_FOUND) return 'missing'
      if (violationIn(error)?.operation === 'publish') return 'unknown'
      throw this.fail(error)
    }
  }

  /** The server reports a subject to which the user may not publish apart from the answers. */
  async #watchViolations(): Promise<void> {
    for await (const status of this.#nc.status()) {
      const violation = status.type === 'error' ? violationIn(status.error) : undefined
      if (violation?.operation === 'publish') this.#confirmations.forbid(violation.subject)
    }
  }

  #broken(error: unknown): BrokerUnavailableError {
    if (error instanceof BrokerUnavailableError) return error
    const { connection } = this.#settings
    return new BrokerUnavailableError(
      `Publishing to NATS at ${connection.servers.name} failed: ${reasonIn(error, connection)}. The result of the messages in flight is ` +
        'unknown.',
      { cause: error },
    )
  }
}
