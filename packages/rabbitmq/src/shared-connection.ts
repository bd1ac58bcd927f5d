import { BrokerUnavailableError } from '@txbox/core'
import { BrokerConnection, type ConnectionSettings } from './broker-connection.ts'
import { unlessAborted } from './unless-aborted.ts'

interface Attempt {
  readonly made: Promise<BrokerConnection>
  /** Aborting it ends the attempt. */
  readonly lifetime: AbortController
}

/**
 * The one connection of a publisher: made when it is first needed, and again when it is needed after a failure. Calls
 * that need it at the same time share one attempt.
 */
export class SharedConnection {
  readonly #settings: ConnectionSettings
  #current: BrokerConnection | undefined
  #attempt: Attempt | undefined
  #closed: Promise<void> | undefined

  constructor(settings: ConnectionSettings) {
    this.#settings = settings
  }

  /**
   * @throws {BrokerUnavailableError} when it cannot be made, or after `close`; the signal's reason when that is aborted,
   *   while the attempt continues for the others.
   */
  async get(signal: AbortSignal): Promise<BrokerConnection> {
    if (this.#closed !== undefined) throw closedError(this.#settings)
    if (this.#current?.failed === false) return this.#current
    this.#attempt ??= this.#connect()
    return await unlessAborted(this.#attempt.made, signal)
  }

  /** Ends the connection, or the attempt to make it. What is in flight fails. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #connect(): Attempt {
    const failed = this.#current
    // Its socket is open yet when it was only its channel that failed.
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
    `The publisher for RabbitMQ at ${address.name} is closed. What was in flight is unknown; make a new publisher.`,
  )
}
