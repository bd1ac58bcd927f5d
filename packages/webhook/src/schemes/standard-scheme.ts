import { base64Signature, checkHmac, malformed } from './hmac.ts'
import { withoutId, type Scheme } from './scheme.ts'
import { signedTime } from './signed-time.ts'
import { standardSecret } from './standard-secret.ts'
import { rfc3339, textMember, timeMember } from './payload-members.ts'
import { headerOf, signedHeader } from './webhook-request.ts'

export const STANDARD_HEADERS = {
  id: 'webhook-id',
  timestamp: 'webhook-timestamp',
  signature: 'webhook-signature',
} as const

/** How `webhookPublisher` sends the fields of a message that Standard Webhooks has no place for. */
export const WIRE_HEADERS = {
  type: 'txbox-type',
  key: 'txbox-key',
  correlationId: 'txbox-correlation-id',
  time: 'txbox-time',
} as const

/** Standard Webhooks, https://www.standardwebhooks.com: the signature is `v1,` and the Base64 of an HMAC over id, time and body. */
export const standardScheme: Scheme = {
  ownHeaders: [...Object.values(STANDARD_HEADERS), ...Object.values(WIRE_HEADERS)],
  idPlace: `header '${STANDARD_HEADERS.id}'`,
  secretForm: "'whsec_' and the Base64 of 1 to 64 bytes",
  secretOf: (secret) => standardSecret(secret, 1),

  verify(request, secrets, toleranceMs) {
    const { id, timestamp, signature } = STANDARD_HEADERS
    const signatures = signedHeader(request, signature)
      .split(/ +/)
      .map((part) => part.split(','))
      .filter(([version]) => version === 'v1')
      .map(([, text = '']) => base64Signature(text))
    const usable = signatures.filter((each) => each !== undefined)
    if (usable.length === 0) throw malformed(signature, "'v1,' and a signature in Base64")
    const seconds = signedHeader(request, timestamp)
    const at = signedTime(timestamp, seconds, toleranceMs)
    if (headerOf(request, id) === undefined) throw withoutId(standardScheme)
    checkHmac(signature, usable, secrets, [`${signedHeader(request, id)}.${seconds}.`, request.body])
    return at
  },

  read(request, payload) {
    return {
      id: headerOf(request, STANDARD_HEADERS.id),
      type: headerOf(request, WIRE_HEADERS.type) ?? textMember(payload, 'type'),
      time: rfc3339(headerOf(request, WIRE_HEADERS.time)) ?? timeMember(payload, 'timestamp'),
      correlationId: headerOf(request, WIRE_HEADERS.correlationId),
    }
  },
}
