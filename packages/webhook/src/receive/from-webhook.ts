import { InvalidOptionError, type InboxMessage } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import { withoutId, type Scheme } from '../schemes/scheme.ts'
import { readRequest, type ReadRequest, type WebhookRequest } from '../schemes/webhook-request.ts'
import { isMessageHeader } from './message-headers.ts'
import { schemeOf, verified, type VerifyWebhookOptions } from './verify-webhook.ts'
import { webhookPayload } from './webhook-payload.ts'

const SOURCE_CHARACTERS = 255

export interface FromWebhookOptions extends VerifyWebhookOptions {
  /**
   * The sender, 1 to 255 characters. Together with the id, the source is the identity of the message, so that ids of two senders
   * never meet. Required for `'standard'`, which many senders use.
   *
   * @default the scheme
   */
  source?: string | undefined
}

/** A webhook as a message for the inbox. */
export interface WebhookMessage<P = unknown> extends InboxMessage<P> {
  readonly source: string
  /** The body as it was received, byte for byte: what the sender has signed. */
  readonly body: Uint8Array
}

/**
 * Checks the signature of a webhook as `verifyWebhook` does, and converts the webhook to a message for the inbox.
 *
 * - `id`: the same in each retry. Standard Webhooks: the header `webhook-id`; Stripe: `id` of the event; GitHub: `X-GitHub-Delivery`;
 *   Slack: `event_id`; Shopify: the topic and `X-Shopify-Event-Id`, joined by a colon, otherwise `X-Shopify-Webhook-Id`.
 * - `type`: the type of the event, as the provider names it; `time`: the time of the event, where the provider states one.
 * - `payload`: parsed, when the content type is JSON or missing; text, when it is `text/…`; the JSON of the field `payload` of a
 *   form, if the form begins with this field; otherwise the bytes. `P` is not checked. `body` has the bytes.
 * - `headers`: those of the request, with names in lower case, without signatures, credentials, cookies, and the headers of HTTP
 *   itself, such as `host`. Of Standard Webhooks, what `webhookPublisher` sends as `txbox-type`, `txbox-time` and `txbox-correlation-id`
 *   are fields of the message, and no headers; `txbox-key`, its ordering key, is left out.
 *
 * GitHub and Shopify do not sign their ids: who has a captured body can send it again under another id. No scheme signs the content
 * type and what else comes from headers: `headers`, the type of GitHub and Shopify, Shopify's time, and what `webhookPublisher` sends
 * as type, time and correlation id.
 *
 * @throws {InvalidSignatureError} when the signature is missing, malformed, made with none of the secrets, or out of the tolerance:
 *   answer 401.
 * @throws {InvalidMessageError} without an id, or for a body that is not what its content type says: answer 400.
 * @throws {InvalidOptionError} for a wrong option, and for a body that was parsed before; the text says where to mount the parser.
 */
export function fromWebhook<P = unknown>(
  request: WebhookRequest,
  options: FromWebhookOptions,
): WebhookMessage<P> {
  const check = new OptionChecker('fromWebhook', options).known('scheme', 'secret', 'toleranceMs', 'source')
  schemeOf(check, options)
  const source = sourceOf(check, options)
  const read = readRequest(check.where, request)
  const { scheme } = verified(check, options, read)
  const payload = webhookPayload(scheme.read(read, undefined).id, read)
  const { id, type, time, correlationId } = scheme.read(read, payload)
  if (id === undefined) throw withoutId(scheme)
  return {
    id,
    source,
    ...(type !== undefined && { type }),
    ...(time !== undefined && { time }),
    ...(correlationId !== undefined && { correlationId }),
    headers: messageHeaders(read, scheme),
    payload: payload as P,
    body: read.body,
  }
}

function sourceOf(check: OptionChecker, { scheme, source }: FromWebhookOptions): string {
  if ((source ?? undefined) === undefined && scheme === 'standard') {
    throw new InvalidOptionError(
      `${check.where}: the option 'source' is missing. Many senders use Standard Webhooks: name the sender, such as 'clerk', so that its ` +
        'ids never meet those of another sender.',
    )
  }
  return check.text('source', { max: SOURCE_CHARACTERS, default: scheme })
}

function messageHeaders(request: ReadRequest, scheme: Scheme): Readonly<Record<string, string>> {
  const own = new Set(scheme.ownHeaders)
  return Object.fromEntries(
    [...request.headers]
      .filter(([name]) => !own.has(name) && isMessageHeader(name))
      .map(([name, values]) => [name, values.join(', ')]),
  )
}
