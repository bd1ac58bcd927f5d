import { DatabaseUnavailableError } from '@txbox/core'
import { Turns } from '@txbox/core/internal'
import type { DatabaseErrors } from '../../errors/database-errors.ts'
import type { OwnConnection } from '../../transactions/root-adapter.ts'
import { repeatOnConflict } from '../../transactions/repeat-on-conflict.ts'

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
  #turns = new Turns()
  #closings = 0
  /** The functions that reject the work in flight. */
  readonly #inFlight = new Set<(reason: unknown) => void>()

  constructor(connect: () => Promise<OwnConnection>, errors: DatabaseErrors) {
    this.#connect = connect
    this.#errors = errors
  }

  /**
   * Runs work that may be repeated, after all earlier work has ended, because a connection runs one statement at a
   * time. When the connection is closed, all work that was requested before rejects: a driver may report nothing for a
   * connection whose other end is gone, not even when the driver closes the connection.
   */
  inTurn<R>(doing: string, work: (query: OwnConnection['query']) => Promise<R>): Promise<R> {
    const closings = this.#closings
    return this.#turns.run(() =>
      repeatOnConflict(this.#errors, doing, () => {
        // Work for a closed connection must not run on the next connection, beside the work that has its turn there.
        if (closings !== this.#closings) throw closed()
        return this.#runNow(doing, work)
      }),
    )
  }

  close(): void {
    const connection = this.#connection
    const broken = this.#inFlight.size > 0
    this.#connection = undefined
    this.#turns = new Turns()
    this.#closings += 1
    for (const reject of this.#inFlight) reject(closed())
    // No caller waits for the release: a connection that is still being opened may never be established.
    void connection?.then((open) => open.release(broken)).catch(() => undefined)
  }

  async #runNow<R>(doing: string, work: (query: OwnConnection['query']) => Promise<R>): Promise<R> {
    const connecting = (this.#connection ??= this.#connect())
    const { promise, resolve, reject } = Promise.withResolvers<R>()
    this.#inFlight.add(reject)
    try {
      connecting.then(({ query }) => work(query)).then(resolve, reject)
      return await promise
    } catch (error) {
      // After any error, a new connection is the safe choice; leases are renewed rarely.
      if (this.#connection === connecting) {
        this.#connection = undefined
        void connecting.then((open) => open.release(true)).catch(() => undefined)
      }
      throw this.#errors.translate(error, doing)
    } finally {
      this.#inFlight.delete(reject)
    }
  }
}

function closed(): DatabaseUnavailableError {
  return new DatabaseUnavailableError('The connection was closed before the database had answered.')
}
