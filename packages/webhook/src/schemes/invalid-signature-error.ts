import { TxboxError } from '@txbox/core'

/**
 * A webhook is not signed with one of the secrets, or its signature is missing, malformed or too old. The text says which, without
 * the secret or the body. Answer 401: a retry of the request would fail as well.
 */
export class InvalidSignatureError extends TxboxError {
  constructor(message: string, options: { cause?: unknown } = {}) {
    super('TXBOX_INVALID_SIGNATURE', message, options)
  }
}
