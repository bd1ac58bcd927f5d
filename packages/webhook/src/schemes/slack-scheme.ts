import { propertyOf } from '@txbox/core/internal'
import { checkHmac, hexSignature, malformed } from './hmac.ts'
import { textMember, timeMember } from './payload-members.ts'
import { TEXT_SECRET_FORM, textSecret, type Scheme } from './scheme.ts'
import { signedTime } from './signed-time.ts'
import { signedHeader } from './webhook-request.ts'

const HEADER = 'x-slack-signature'
const TIME_HEADER = 'x-slack-request-timestamp'

/** Slack: `v0=` and an HMAC in hexadecimal over `v0`, the time and the body. */
export const slackScheme: Scheme = {
  ownHeaders: [HEADER, TIME_HEADER],
  idPlace: "member 'event_id' of the body",
  secretForm: TEXT_SECRET_FORM,
  secretOf: textSecret,

  verify(request, secrets, toleranceMs) {
    const [, digits = ''] = /^v0=(.*)$/.exec(signedHeader(request, HEADER)) ?? []
    const signature = hexSignature(digits)
    if (signature === undefined) throw malformed(HEADER, "'v0=' and 64 hexadecimal digits")
    const seconds = signedHeader(request, TIME_HEADER)
    const at = signedTime(TIME_HEADER, seconds, toleranceMs)
    checkHmac(HEADER, [signature], secrets, [`v0:${seconds}:`, request.body])
    return at
  },

  read(_, payload) {
    return {
      id: textMember(payload, 'event_id'),
      type: textMember(propertyOf(payload, 'event'), 'type') ?? textMember(payload, 'type'),
      time: timeMember(payload, 'event_time'),
    }
  },
}
