import { DatabaseUnavailableError } from '@txbox/core'
import type { DatabaseErrors } from './database-errors.ts'
import type { OwnConnection } from './adapters.ts'
import { repeatOnConflict } from './repeat-on-conflict.ts'

/**
 * A statement on leases that waits longer than this fails. A relay gives up earlier, after a third of its lease; the timeout
 * makes sure that a dead connection is not kept.
 */
export const LEASE_TIMEOUT_MS = 5000

/** The single connection of a lease store. It is opened at the first use, and replaced after any error. */
export class LeaseConnection {
  readonly #connect: () => Promise<OwnConnection>
  readonly #errors: DatabaseErrors
  #connection: Promise<OwnConnection> | undefined
  #last: Promise<unknown> = Promise.resolve()
  /** Rejects when the connection is closed. The next connection gets another one. */
  #closing = rejection()
  #inFlight = 0

  constructor(connect: () => Promise<OwnConnection>, errors: DatabaseErrors) {
    this.#connect = connect
    this.#errors = errors
  }

  /**
   * Runs work that may be repeated, after all earlier work has ended, because a connection runs one statement at a
   * time. When the connection is closed, all work that was asked for before rejects: a driver may report nothing for a
   * connection whose other end is gone, not even when it closes the connection.
   */
  inTurn<R>(doing: string, work: (query: OwnConnection['query']) => Promise<R>): Promise<R> {
    const closing = this.#closing
    const turn = this.#last.then(() =>
      repeatOnConflict(this.#errors, doing, () => this.#runNow(doing, work, closing)),
    )
    this.#last = turn.catch(() => undefined)
    return turn
  }

  close(): void {
    const connection = this.#connection
    const broken = this.#inFlight > 0
    this.#connection = undefined
    this.#last = Promise.resolve()
    this.#closing.reject(
      new DatabaseUnavailableError('The connection was closed before the database had answered.'),
    )
    this.#closing = rejection()
    // No caller waits for the release: a connection that is still being opened may never be established.
    void connection?.then((open) => open.release(broken)).catch(() => undefined)
  }

  async #runNow<R>(
    doing: string,
    work: (query: OwnConnection['query']) => Promise<R>,
    closing: PromiseWithResolvers<never>,
  ): Promise<R> {
    // Work for a connection that is closed must not run on the next one, beside the work that is in turn there.
    if (closing !== this.#closing) return closing.promise
    const connecting = (this.#connection ??= this.#connect())
    this.#inFlight++
    try {
      return await Promise.race([connecting.then(({ query }) => work(query)), closing.promise])
    } catch (error) {
      // After any error, a new connection is the safe choice; leases are renewed rarely.
      if (this.#connection === connecting) {
        this.#connection = undefined
        void connecting.then((open) => open.release(true)).catch(() => undefined)
      }
      throw this.#errors.translate(error, doing)
    } finally {
      this.#inFlight--
    }
  }
}

/** A promise that only rejects, and may do so unobserved. */
function rejection(): PromiseWithResolvers<never> {
  const closing = Promise.withResolvers<never>()
  closing.promise.catch(() => undefined)
  return closing
}
