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
  #inFlight = 0

  constructor(connect: () => Promise<OwnConnection>, errors: DatabaseErrors) {
    this.#connect = connect
    this.#errors = errors
  }

  /**
   * Runs work that may be repeated, after all earlier work has ended, because a connection runs one statement at a
   * time.
   */
  inTurn<R>(doing: string, work: (query: OwnConnection['query']) => Promise<R>): Promise<R> {
    const turn = this.#last.then(() => repeatOnConflict(this.#errors, doing, () => this.#runNow(doing, work)))
    this.#last = turn.catch(() => undefined)
    return turn
  }

  close(): void {
    const connection = this.#connection
    const broken = this.#inFlight > 0
    this.#connection = undefined
    this.#last = Promise.resolve()
    // No caller waits for the release: a connection that is still being opened may never be established.
    void connection?.then((open) => open.release(broken)).catch(() => undefined)
  }

  async #runNow<R>(doing: string, work: (query: OwnConnection['query']) => Promise<R>): Promise<R> {
    const connecting = (this.#connection ??= this.#connect())
    this.#inFlight++
    try {
      return await work((await connecting).query)
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
