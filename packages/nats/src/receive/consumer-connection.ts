import { BrokerUnavailableError } from '@txbox/core'
import { within, type Connection } from '@txbox/core/internal'
import { jetstreamManager } from '@nats-io/jetstream'
import type { Msg, NatsConnection } from '@nats-io/transport-node'
import { reasonIn, violationIn } from '../connection/client-errors.ts'
import {
  INTERVALS_UNTIL_DEAD,
  cannotConnect,
  connectServer,
  unanswered,
} from '../connection/connect-server.ts'
import { findConsumer, type FoundConsumer } from './consumer-declaration.ts'
import type { SourceSettings } from './nats-source-options.ts'
import { Pull } from './pull.ts'
import { RoundTrips } from './round-trips.ts'

const LONGEST_PING_INTERVAL_MS = 10_000
const SHORTEST_PING_INTERVAL_MS = 100
/** A dead server is noticed within half of the lease. */
const LEASE_SHARE = 0.5

/** How long to wait for the answer to a settlement, at most, before it is sent again. */
const LONGEST_ANSWER_MS = 5000

interface ConsumerEvents {
  /** @param sentAfter the server has delivered the message after this instant, on the monotonic clock of this process. */
  readonly received: (message: Msg, sentAfter: number) => void
  /** The connection has failed, or a request for messages was refused. Called while messages are asked for, and otherwise not. */
  readonly changed: () => void
  readonly warned: ((text: string) => void) | undefined
}

/** A connection that receives from one consumer. It never reconnects, and is dropped as a whole when it fails. */
export class ConsumerConnection implements Connection {
  readonly #nc: NatsConnection
  readonly #settings: SourceSettings
  readonly #consumer: FoundConsumer
  readonly #events: ConsumerEvents
  readonly #pullSubject: string
  readonly #roundTrips: RoundTrips
  #pull: Pull | undefined
  #refusal: Error | undefined
  #failure: BrokerUnavailableError | undefined

  private constructor(
    nc: NatsConnection,
    settings: SourceSettings,
    consumer: FoundConsumer,
    events: ConsumerEvents,
    lifetime: AbortSignal,
  ) {
    this.#nc = nc
    this.#settings = settings
    this.#consumer = consumer
    this.#events = events
    this.#roundTrips = new RoundTrips(settings.ackWaitMs, () => nc.flush())
    this.#pullSubject = `$JS.API.CONSUMER.MSG.NEXT.${settings.stream}.${settings.consumer}`
    lifetime.addEventListener('abort', () => this.drop(this.#broken(lifetime.reason)), { once: true })
    void nc.closed().then((error) => this.#fail(error ?? new Error('it was closed')))
    void this.#watchViolations()
  }

  /**
   * Connects, logs in, and finds or creates the consumer. Aborting `lifetime` ends the attempt, and later the connection, at once.
   *
   * @throws {BrokerUnavailableError} when the consumer cannot be used within twice `connectTimeoutMs`.
   */
  static async open(
    settings: SourceSettings,
    events: ConsumerEvents,
    lifetime: AbortController,
  ): Promise<ConsumerConnection> {
    const { connection, stream, consumer, ackWaitMs } = settings
    const pingIntervalMs = (ackWaitMs * LEASE_SHARE) / INTERVALS_UNTIL_DEAD
    const nc = await connectServer(connection, {
      name: `txbox consumer ${consumer} of ${stream}`,
      pingIntervalMs: Math.max(SHORTEST_PING_INTERVAL_MS, Math.min(LONGEST_PING_INTERVAL_MS, pingIntervalMs)),
      lifetime: lifetime.signal,
    })
    try {
      const manager = await jetstreamManager(nc, { checkAPI: false, timeout: connection.connectTimeoutMs })
      const found = await within(findConsumer(manager, settings), connection.connectTimeoutMs, unanswered)
      lifetime.signal.throwIfAborted()
      if (found.warning !== undefined) events.warned?.(found.warning)
      return new ConsumerConnection(nc, settings, found, events, lifetime.signal)
    } catch (error) {
      void nc.close()
      if (lifetime.signal.aborted) throw lifetime.signal.reason
      throw cannotReceive(settings, error)
    }
  }

  get failure(): BrokerUnavailableError | undefined {
    return this.#failure
  }

  /** The number of messages that were asked for and may still come. */
  get asked(): number {
    return this.#pull?.left ?? 0
  }

  /** Asks for messages, unless some were asked for that may still come. @throws {Error} when the last request was refused. */
  ask(batch: number): void {
    const refusal = this.#failure ?? this.#refusal
    this.#refusal = undefined
    if (refusal !== undefined) throw refusal
    if (this.asked > 0) return
    const askedAt = performance.now()
    this.#pull = new Pull(this.#nc, {
      subject: this.#pullSubject,
      batch,
      limits: this.#consumer.limits,
      inboxPrefix: this.#settings.connection.inboxPrefix,
      // No message can have come before it was asked for.
      received: (message) => this.#events.received(message, Math.max(askedAt, this.#roundTrips.sentAfter)),
      ended: (end) => {
        if (end === 'gone') this.#fail(new Error('the consumer or its stream is gone'))
        else if (end !== 'over') this.#refusal = this.#broken(new Error(end.refusal))
        this.#events.changed()
      },
    })
  }

  /** Cancels the request for messages. Resolves when no message comes any more. */
  async cancel(): Promise<void> {
    const pull = this.#pull
    this.#pull = undefined
    await pull?.cancel()
  }

  /** Sends a settlement, and waits until the consumer has processed it. */
  async settle(reply: string, settlement: string): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    const timeout = Math.ceil(Math.min(LONGEST_ANSWER_MS, this.#settings.ackWaitMs))
    await this.#nc.request(reply, settlement, { timeout })
  }

  drop(reason: BrokerUnavailableError): void {
    if (this.#failure !== undefined) return
    this.#failure = reason
    this.#pull?.abandon()
    this.#roundTrips.stop()
    this.#events.changed()
    void this.#nc.close()
  }

  close(reason: BrokerUnavailableError): Promise<void> {
    this.drop(reason)
    return Promise.resolve()
  }

  /** The server reports that the user may not ask for messages apart from the answers. */
  async #watchViolations(): Promise<void> {
    for await (const status of this.#nc.status()) {
      if (status.type !== 'error') continue
      if (violationIn(status.error)?.subject === this.#pullSubject) this.#fail(status.error)
    }
  }

  #fail(error: unknown): void {
    this.drop(this.#broken(error))
  }

  #broken(error: unknown): BrokerUnavailableError {
    if (error instanceof BrokerUnavailableError) return error
    const { connection, stream, consumer } = this.#settings
    return new BrokerUnavailableError(
      `Receiving from the consumer '${consumer}' of stream '${stream}' of NATS at ${connection.servers.name} failed: ` +
        `${reasonIn(error, connection)}.`,
      { cause: error },
    )
  }
}

function cannotReceive({ connection }: SourceSettings, error: unknown): BrokerUnavailableError {
  if (violationIn(error) === undefined && (error as Partial<Error> | undefined)?.name !== 'Error') {
    return cannotConnect(connection, error)
  }
  return new BrokerUnavailableError(
    `Cannot receive from NATS at ${connection.servers.name}: ${reasonIn(error, connection)}.`,
    { cause: error },
  )
}
