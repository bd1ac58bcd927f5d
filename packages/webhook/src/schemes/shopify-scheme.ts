import { base64Signature, checkHmac, malformed } from './hmac.ts'
import { rfc3339 } from './payload-members.ts'
import { TEXT_SECRET_FORM, textSecret, type Scheme } from './scheme.ts'
import { headerOf, signedHeader, type ReadRequest } from './webhook-request.ts'

const HEADER = 'x-shopify-hmac-sha256'
const TOPIC_HEADER = 'x-shopify-topic'
const EVENT_ID_HEADER = 'x-shopify-event-id'
const WEBHOOK_ID_HEADER = 'x-shopify-webhook-id'
const TIME_HEADER = 'x-shopify-triggered-at'

/** Shopify: the Base64 of an HMAC over the body alone. Neither a time nor the ids are signed. */
export const shopifyScheme: Scheme = {
  ownHeaders: [HEADER, EVENT_ID_HEADER, WEBHOOK_ID_HEADER, TIME_HEADER],
  idPlace: `header '${EVENT_ID_HEADER}' or '${WEBHOOK_ID_HEADER}'`,
  secretForm: TEXT_SECRET_FORM,
  secretOf: textSecret,

  verify(request, secrets) {
    const signature = base64Signature(signedHeader(request, HEADER))
    if (signature === undefined) throw malformed(HEADER, 'the Base64 of 32 bytes')
    checkHmac(HEADER, [signature], secrets, [request.body])
    return undefined
  },

  read(request) {
    return {
      id: idOf(request),
      type: headerOf(request, TOPIC_HEADER),
      time: rfc3339(headerOf(request, TIME_HEADER)),
    }
  },
}

/** An event has a webhook of each topic that it concerns. The id of the webhook differs between subscriptions to one topic. */
function idOf(request: ReadRequest): string | undefined {
  const event = headerOf(request, EVENT_ID_HEADER)
  if (event === undefined) return headerOf(request, WEBHOOK_ID_HEADER)
  const topic = headerOf(request, TOPIC_HEADER)
  return topic === undefined ? event : `${topic}:${event}`
}
