import { TxboxError } from '@txbox/core'

/** The handler, or the acknowledgement, took longer than `handleTimeoutMs`. The delivery has failed, and is retried. */
export class HandleTimeoutError extends TxboxError {
  constructor(message: string) {
    super('TXBOX_HANDLE_TIMEOUT', message, { retryable: true })
  }
}

/** The reason of a handler's signal when the consumer stops. The delivery is returned to the source. */
export class ConsumerStoppedError extends TxboxError {
  constructor(message: string) {
    super('TXBOX_CONSUMER_STOPPED', message, { retryable: true })
  }
}
