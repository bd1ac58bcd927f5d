import { BrokerUnavailableError } from '../errors/errors.ts'
import type { OutboxMessage } from '../messages/messages.ts'
import type { PublishOptions, PublishResult, Publisher } from '../ports/publisher.ts'
import { unlessAborted } from '../time/unless-aborted.ts'
import { OrderedBatch } from './ordered-batch.ts'
import { SharedConnection, type Connection } from './shared-connection.ts'

/** The parts in which the publishers of brokers with a connection differ. */
export interface ConnectedPublisherParts<C extends Connection> extends Pick<
  Publisher,
  'system' | 'server' | 'cloudEvents'
> {
  /** The broker in error messages, without user or password, such as `Kafka at broker:9092`. */
  readonly name: string
  /** Opens a connection. Aborting `lifetime` must end the attempt, and later the connection, at once. */
  readonly open: (lifetime: AbortController) => Promise<C>
  /**
   * Sends the messages of one call until each has a result. Throws when the result of a message is unknown, and ends when the
   * signal is aborted.
   */
  readonly send: (connection: C, batch: OrderedBatch, options: PublishOptions) => Promise<void>
  /** Rejects if the broker does not take messages over this connection. */
  readonly check: (connection: C) => Promise<void>
}

/**
 * A publisher whose calls share one connection, which is opened at the first call, and again at the next call after it has failed. Of
 * each key, one message at a time is in flight.
 */
export function connectedPublisher<C extends Connection>(parts: ConnectedPublisherParts<C>): Publisher {
  return new ConnectedPublisher(parts)
}

class ConnectedPublisher<C extends Connection> implements Publisher {
  readonly ordering = 'per-key'
  readonly system: Publisher['system']
  readonly server: Publisher['server']
  readonly cloudEvents: Publisher['cloudEvents']
  readonly #connection: SharedConnection<C>
  readonly #send: ConnectedPublisherParts<C>['send']
  readonly #check: ConnectedPublisherParts<C>['check']

  constructor({ system, server, cloudEvents, name, open, send, check }: ConnectedPublisherParts<C>) {
    this.system = system
    this.server = server
    this.cloudEvents = cloudEvents
    this.#connection = new SharedConnection(
      open,
      () =>
        new BrokerUnavailableError(
          `The publisher for ${name} is closed. It is unknown whether messages in flight were published. Create a new publisher.`,
        ),
    )
    this.#send = send
    this.#check = check
  }

  async publish(
    messages: readonly OutboxMessage[],
    options: PublishOptions,
  ): Promise<readonly PublishResult[]> {
    const { signal } = options
    signal.throwIfAborted()
    if (messages.length === 0) return []
    const batch = new OrderedBatch(messages)
    await this.#send(await this.#connection.get(signal), batch, options)
    return batch.results as PublishResult[]
  }

  async check({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    signal.throwIfAborted()
    const connection = await this.#connection.get(signal)
    await unlessAborted(this.#check(connection), signal)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }
}
