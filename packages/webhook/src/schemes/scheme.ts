import { InvalidMessageError } from '@txbox/core'
import type { ReadRequest } from './webhook-request.ts'

/** What a signature vouches for. */
export interface VerifiedWebhook {
  /**
   * The id of the event or delivery, the same in each retry; missing if the request has none, such as Slack's
   * `url_verification`. GitHub and Shopify do not sign their ids.
   */
  readonly id?: string
  /** The time at which this request was signed, if the scheme has it. */
  readonly timestamp?: Date
}

/** What a message of the inbox gets from a webhook. */
export interface WebhookFields {
  readonly id: string | undefined
  readonly type?: string | undefined
  readonly time?: Date | string | undefined
  readonly correlationId?: string | undefined
}

/** How one provider signs. */
export interface Scheme {
  /** Headers that are about the signature and the delivery, so that they are no headers of the message. */
  readonly ownHeaders: readonly string[]
  /** Where the id is, for the error of a request without one. */
  readonly idPlace: string
  /** The bytes of a secret; `undefined` if the text is no secret of this scheme. */
  secretOf(secret: string): Uint8Array | undefined
  /** What `secretOf` expects. */
  readonly secretForm: string
  /**
   * Checks the signature. @returns the time at which the request was signed.
   *
   * @throws {InvalidSignatureError} when the signature is missing, malformed, wrong or too old.
   */
  verify(request: ReadRequest, secrets: readonly Uint8Array[], toleranceMs: number): Date | undefined
  /**
   * Reads the fields of a request whose signature was checked.
   *
   * @param payload the parsed body. A text or bytes have no members.
   */
  read(request: ReadRequest, payload: unknown): WebhookFields
}

/** A secret that is used as it is. */
export function textSecret(secret: string): Uint8Array | undefined {
  return secret === '' ? undefined : Buffer.from(secret)
}

export const TEXT_SECRET_FORM = 'a text that is not empty'

/** @returns the error for a request without the id that its message would have. */
export function withoutId({ idPlace }: Pick<Scheme, 'idPlace'>): InvalidMessageError {
  return new InvalidMessageError(
    `The webhook has no id: its ${idPlace} must be a text that is not empty. Without the id, a retry could not be recognized.`,
  )
}
