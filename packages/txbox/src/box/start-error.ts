import { TxboxError, isTxboxError } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'

/** A part of a box could not start. The other parts were stopped. `cause` is the error of the part. */
export class StartError extends TxboxError {
  /** `'relay'`, `'gc'`, or the name of a consumer or source. */
  readonly part: string

  constructor(part: string, cause: unknown) {
    super(
      'TXBOX_START',
      `start: the part '${part}' could not start: ${reasonOf(cause)} The other parts were stopped. Remove the reason, and create ` +
        'another box.',
      { cause, retryable: isTxboxError(cause) && cause.retryable },
    )
    this.part = part
  }
}
