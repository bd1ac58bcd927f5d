import type { BrokerUnavailableError } from '../errors/errors.ts'
import { unlessAborted } from '../time/unless-aborted.ts'

/** A connection to a broker that never reconnects. */
export interface Connection {
  /** Why the connection can no longer be used; `undefined` while it works. */
  readonly failure: BrokerUnavailableError | undefined
  /** Ends the connection at once. Calls in flight fail with `reason`. Has no effect on a connection that has ended. */
  drop(reason: BrokerUnavailableError): void
  /** Closes the connection as its protocol prescribes. Calls in flight fail with `reason`. */
  close(reason: BrokerUnavailableError): Promise<void>
}

interface ConnectionAttempt<C> {
  readonly made: Promise<C>
  /** Aborted to end the attempt. */
  readonly lifetime: AbortController
}

/**
 * The one connection of a publisher: opened when it is first needed, and opened again when it is needed after a failure.
 * Calls that need the connection at the same time share one attempt.
 */
export class SharedConnection<C extends Connection> {
  readonly #open: (lifetime: AbortController) => Promise<C>
  readonly #closedError: () => BrokerUnavailableError
  #current: C | undefined
  #attempt: ConnectionAttempt<C> | undefined
  #closed: Promise<void> | undefined

  /**
   * @param open opens a connection. Aborting `lifetime` must end the attempt, and later the connection, at once.
   * @param closedError creates the error of calls after `close`.
   */
  constructor(open: (lifetime: AbortController) => Promise<C>, closedError: () => BrokerUnavailableError) {
    this.#open = open
    this.#closedError = closedError
  }

  /**
   * @throws {BrokerUnavailableError} when the connection cannot be opened, or after `close`; the signal's reason when the
   *   signal is aborted, while the attempt goes on for other calls.
   */
  async get(signal: AbortSignal): Promise<C> {
    if (this.#closed !== undefined) throw this.#closedError()
    if (this.#current !== undefined && this.#current.failure === undefined) return this.#current
    this.#attempt ??= this.#connect()
    return await unlessAborted(this.#attempt.made, signal)
  }

  /** Ends the connection, or the attempt to open it. Calls in flight fail. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  #connect(): ConnectionAttempt<C> {
    const failed = this.#current
    // Only a part of the connection may have failed: its socket may still be open.
    if (failed?.failure !== undefined) failed.drop(failed.failure)
    const lifetime = new AbortController()
    const made = this.#open(lifetime)
      .then((connection) => (this.#current = connection))
      .finally(() => (this.#attempt = undefined))
    return { lifetime, made }
  }

  async #close(): Promise<void> {
    const error = this.#closedError()
    this.#attempt?.lifetime.abort(error)
    // The calls that wait for the attempt throw its error.
    await this.#attempt?.made.catch(() => undefined)
    await this.#current?.close(error)
  }
}
