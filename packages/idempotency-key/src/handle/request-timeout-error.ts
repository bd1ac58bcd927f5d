import { TxboxError } from '@txbox/core'

/**
 * The handler of a request took longer than `timeoutMs`, and its transaction was rolled back, or its lease was released; or the
 * function `open` of the option `seal` took longer, and the handler did not run.
 */
export class RequestTimeoutError extends TxboxError {
  constructor(message: string) {
    super('TXBOX_HANDLE_TIMEOUT', message, { retryable: true })
  }
}
