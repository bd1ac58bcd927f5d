import { DatabaseUnavailableError, TransactionAbortedError, isTxboxError } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import type { EndOfConnection, Resolved } from './adapters.ts'
import type { DatabaseErrors } from '../errors/database-errors.ts'

interface Emitter {
  on(event: 'error', listener: (error: unknown) => void): unknown
  off(event: 'error', listener: (error: unknown) => void): unknown
}

/** Listens for the first 'error' event that the server has caused. Other errors show no more than a later statement does. */
export function endOf(connection: Emitter, isOfServer: (error: unknown) => boolean): EndOfConnection {
  let reason: unknown
  const listener = (error: unknown): void => {
    if (reason === undefined && isOfServer(error)) reason = error
  }
  connection.on('error', listener)
  return {
    get reason() {
      return reason
    },
    stop: () => void connection.off('error', listener),
  }
}

/** The reasons for which a transaction's connection has ended. */
export class LostTransaction {
  readonly #errors: DatabaseErrors
  #end: EndOfConnection | undefined

  constructor(errors: DatabaseErrors) {
    this.#errors = errors
  }

  watch({ driver, connection }: Resolved): void {
    this.#end = driver.watchEnd?.(connection)
  }

  stop(): void {
    this.#end?.stop()
  }

  /** Translates an error of BEGIN, COMMIT or the connection. The driver's error may not show why the connection has ended. */
  translate(error: unknown, doing: string): unknown {
    const reason = this.#end?.reason ?? error
    return this.#idleTooLong(reason, doing, reason) ?? this.#errors.translate(reason, doing)
  }

  /**
   * Explains an error that the work has thrown because its connection had ended. An error of the driver stays the same
   * object, with the reason as its cause; an error of a statement of txbox is replaced.
   */
  explain(error: unknown): unknown {
    if (!(this.#errors.translate(error, DOING) instanceof DatabaseUnavailableError)) return error
    const reason = this.#end?.reason
    // An error is not its own cause.
    const explained =
      reason === undefined
        ? this.#idleTooLong(error, DOING, undefined)
        : (this.#idleTooLong(reason, DOING, reason) ?? this.#errors.translate(reason, DOING))
    if (explained === undefined) return error
    if (isTxboxError(error)) return explained
    if (error instanceof Error && error.cause === undefined && Object.isExtensible(error)) {
      Object.defineProperty(error, 'cause', { value: explained, configurable: true, writable: true })
    }
    return error
  }

  /** Waiting does not help if the work is always slower than the server allows, so this is no outage of the database. */
  #idleTooLong(reason: unknown, doing: string, cause: unknown): TransactionAbortedError | undefined {
    const setting = this.#errors.idleLimitOf(reason)
    if (setting === undefined) return undefined
    return new TransactionAbortedError(
      `${doing}: the server ended the connection because the transaction was idle for longer than ${setting} (${reasonOf(reason, 300)}). ` +
        `Raise ${setting}, or make the handler quicker. Nothing was written.`,
      { cause },
    )
  }
}

const DOING = 'running a statement of the transaction'
