import { TxboxError } from '@txbox/core'

/** The item was not added, because the batcher has been closed. Nothing will process the item. */
export class BatcherClosedError extends TxboxError {
  constructor(message: string) {
    super('TXBOX_BATCHER_CLOSED', message)
  }
}
