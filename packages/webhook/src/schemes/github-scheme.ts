import { checkHmac, hexSignature, malformed } from './hmac.ts'
import { TEXT_SECRET_FORM, textSecret, type Scheme } from './scheme.ts'
import { headerOf, signedHeader } from './webhook-request.ts'

const HEADER = 'x-hub-signature-256'
const ID_HEADER = 'x-github-delivery'

/** GitHub: `sha256=` and an HMAC in hexadecimal over the body alone. Neither a time nor the id is signed. */
export const githubScheme: Scheme = {
  ownHeaders: [HEADER, 'x-hub-signature', ID_HEADER],
  idPlace: `header '${ID_HEADER}'`,
  secretForm: TEXT_SECRET_FORM,
  secretOf: textSecret,

  verify(request, secrets) {
    const [, digits = ''] = /^sha256=(.*)$/.exec(signedHeader(request, HEADER)) ?? []
    const signature = hexSignature(digits)
    if (signature === undefined) throw malformed(HEADER, "'sha256=' and 64 hexadecimal digits")
    checkHmac(HEADER, [signature], secrets, [request.body])
    return undefined
  },

  read(request) {
    return { id: headerOf(request, ID_HEADER), type: headerOf(request, 'x-github-event') }
  },
}
