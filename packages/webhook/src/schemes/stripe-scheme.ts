import { checkHmac, hexSignature, malformed } from './hmac.ts'
import { textMember, timeMember } from './payload-members.ts'
import { TEXT_SECRET_FORM, textSecret, type Scheme } from './scheme.ts'
import { signedTime } from './signed-time.ts'
import { signedHeader } from './webhook-request.ts'

const HEADER = 'stripe-signature'

/** Stripe: `t=` and the time, then `v1=` and an HMAC in hexadecimal over the time and the body, once for each active secret. */
export const stripeScheme: Scheme = {
  ownHeaders: [HEADER],
  idPlace: "member 'id' of the body",
  secretForm: TEXT_SECRET_FORM,
  secretOf: textSecret,

  verify(request, secrets, toleranceMs) {
    const items = signedHeader(request, HEADER).split(',').map(itemOf)
    const valuesOf = (name: string): string[] =>
      items.filter((item) => item.name === name).map(({ value }) => value)
    const [seconds, ...more] = valuesOf('t')
    if (seconds === undefined || more.length > 0) throw malformed(HEADER, "one item 't=' with the time")
    const signatures = valuesOf('v1')
      .map(hexSignature)
      .filter((signature) => signature !== undefined)
    if (signatures.length === 0) throw malformed(HEADER, "an item 'v1=' with 64 hexadecimal digits")
    const at = signedTime(HEADER, seconds, toleranceMs)
    checkHmac(HEADER, signatures, secrets, [`${seconds}.`, request.body])
    return at
  },

  read(_, payload) {
    return {
      id: textMember(payload, 'id'),
      type: textMember(payload, 'type'),
      time: timeMember(payload, 'created'),
    }
  },
}

function itemOf(text: string): { name: string; value: string } {
  const at = text.indexOf('=')
  return { name: text.slice(0, Math.max(at, 0)).trim(), value: text.slice(at + 1).trim() }
}
