import { BrokerUnavailableError } from '@txbox/core'
import { unlessAborted } from '@txbox/core/internal'
import { BrokerConnection, type ConnectionSettings } from './broker-connection.ts'

interface ConnectionAttempt {
  readonly made: Promise<BrokerConnection>
  /** Aborted to end the attempt. */
  readonly lifetime: AbortController
}

/**
 * The one connection of a publisher: opened when it is first needed, and opened again when it is needed after a failure.
 * Calls that need the connection at the same time share one attempt.
 */
export class SharedConnection {
  readonly #settings: ConnectionSettings
  #current: BrokerConnection | undefined
  #attempt: ConnectionAttempt | undefined
  #closed: Promise<void> | undefined

  constructor(settings: ConnectionSettings) {
    this.#settings = settings
  }

  /**
   * @throws {BrokerUnavailableError} when the connection cannot be opened, or after `close`; the signal's reason when the
   *   signal is aborted, while the attempt goes on for other calls.
   */
  async get(signal: AbortSignal): Promise<BrokerConnection> {
    if (this.#closed !== undefined) throw closedError(this.#settings)
    if (this.#current?.failed === false) return this.#current
    this.#attempt ??= this.#connect()
    return await unlessAborted(this.#attempt.made, signal)
  }

  /** Ends the connection, or the attempt to open it. Calls in flight fail. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #connect(): ConnectionAttempt {
    const failed = this.#current
    // If only its channel failed, its socket is still open.
    failed?.drop(failed.channel.failure ?? closedError(this.#settings))
    const lifetime = new AbortController()
    const made = BrokerConnection.open(this.#settings, lifetime)
      .then((connection) => (this.#current = connection))
      .finally(() => (this.#attempt = undefined))
    return { lifetime, made }
  }

  async #close(): Promise<void> {
    const error = closedError(this.#settings)
    this.#attempt?.lifetime.abort(error)
    await this.#attempt?.made.catch(() => undefined)
    await this.#current?.close(error)
  }
}

function closedError({ address }: ConnectionSettings): BrokerUnavailableError {
  return new BrokerUnavailableError(
    `The publisher for RabbitMQ at ${address.name} is closed. It is unknown whether messages in flight were published. Create a new publisher.`,
  )
}
