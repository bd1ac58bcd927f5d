import { TxboxError } from '@txbox/core'

/** The handler of a request took longer than `timeoutMs`. Its transaction was rolled back, or its lease was released. */
export class RequestTimeoutError extends TxboxError {
  constructor(message: string) {
    super('TXBOX_HANDLE_TIMEOUT', message, { retryable: true })
  }
}
