import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  InvalidMessageError,
  InvalidOptionError,
  InvalidSignatureError,
  fromWebhook,
  isTxboxError,
  verifyWebhook,
  type WebhookScheme,
} from '@txbox/webhook'
import {
  SCHEMES,
  SECRETS,
  SIGNATURE_HEADERS,
  optionsOf,
  signed,
  withHeader,
} from '../support/subjects/signed-webhooks.ts'

const HEX = 'a'.repeat(64)
const BASE64 = `${'A'.repeat(43)}=`

/** Signatures that are none, and the error of each. */
const MALFORMED: Readonly<Record<WebhookScheme, readonly string[]>> = {
  standard: [
    'v1',
    'v1,',
    'v1,AAAA',
    `v2,${BASE64}`,
    BASE64,
    `v1,${BASE64}A`,
    `v1,${'B'.repeat(44)}`,
    'v1a,x',
    ',',
  ],
  stripe: [
    `v1=${HEX}`,
    't=1793738400',
    `t=1793738400,v0=${HEX}`,
    `t=1793738400,v1=${HEX}0`,
    `t=1793738400,v1=${HEX.slice(1)}g`,
    `t=1,t=2,v1=${HEX}`,
    't,v1',
    '====',
  ],
  github: [HEX, `sha1=${'a'.repeat(40)}`, `sha256=${HEX}0`, 'sha256=', `sha256= ${HEX}`, `SHA256=${HEX}`],
  slack: [HEX, `v1=${HEX}`, `v0=${HEX.slice(2)}`, 'v0='],
  shopify: [HEX, 'AAAA', `${BASE64}=`, 'A'.repeat(44), `-${BASE64.slice(1)}`],
}

describe.for(SCHEMES)('%s', (scheme) => {
  const header = SIGNATURE_HEADERS[scheme]
  const verify = (value: string | string[] | undefined) => (): unknown =>
    verifyWebhook(withHeader(signed(scheme), header, value), optionsOf(scheme))

  test('W1 a missing, empty or repeated signature is refused, and the error names the header', () => {
    expect(verify(undefined)).toThrow(new InvalidSignatureError(`The webhook has no header '${header}'.`))
    for (const empty of ['', '  '])
      expect(verify(empty)).toThrow(`The webhook's header '${header}' is empty.`)
    const genuine = signed(scheme).headers[header]!
    expect(verify([genuine, genuine])).toThrow(`The webhook has the header '${header}' more than once.`)
  })

  test.for(MALFORMED[scheme])('W1 the signature %j is malformed', (value) => {
    expect(verify(value)).toThrow(InvalidSignatureError)
    expect(verify(value)).toThrow(`The webhook's header '${header}' is malformed: expected `)
  })

  test('W1 property: no text as a signature passes, or throws anything else', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), (text) => {
        expect(verify(text)).toThrow(InvalidSignatureError)
      }),
    )
  })

  test('W1 no error shows a secret, a signature or the body', () => {
    const secret = scheme === 'standard' ? 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD' : 'hidden-word'
    const forged = signed(scheme, { body: '{"card":"4242424242424242"', secret })
    const texts = [
      forged,
      withHeader(forged, header, 'hidden-signature'),
      { ...forged, body: {} as never },
    ].map((request) => {
      try {
        verifyWebhook(request, optionsOf(scheme))
      } catch (error) {
        expect(isTxboxError(error)).toBe(true)
        return JSON.stringify(error, Object.getOwnPropertyNames(error)).replaceAll(/"stack":"[^"]*"/g, '')
      }
      return 'was genuine'
    })
    for (const text of texts) {
      expect(text).not.toMatch(/was genuine|4242|hidden/)
      expect(text).not.toContain(SECRETS[scheme].slice(0, 12))
    }
  })

  test('W1 options that are wrong are refused before the request is looked at', () => {
    const request = signed(scheme)
    for (const secret of [
      undefined,
      null,
      '',
      [],
      [SECRETS[scheme], ''],
      7,
      Array(101).fill(SECRETS[scheme]),
    ]) {
      expect(() => verifyWebhook(request, { scheme, secret: secret as never })).toThrow(InvalidOptionError)
    }
    for (const toleranceMs of [999, -1, NaN, Infinity, '300000']) {
      const options = { ...optionsOf(scheme), toleranceMs: toleranceMs as never }
      expect(() => verifyWebhook(request, options)).toThrow(InvalidOptionError)
    }
    expect(() => verifyWebhook(request, { ...optionsOf(scheme), tolerance: 1 } as never)).toThrow(
      "there is no option 'tolerance'",
    )
    expect(() => verifyWebhook(request, { ...optionsOf(scheme), scheme: 'twitter' as never })).toThrow(
      "'scheme' must be 'standard' or 'stripe'",
    )
    expect(() => verifyWebhook(request, { ...optionsOf(scheme), scheme: '__proto__' as never })).toThrow(
      InvalidOptionError,
    )
  })

  test.for<[string, unknown]>([
    ['a parsed body', { id: 1 }],
    ['a body that Express did not read', undefined],
    ['a text', '{"id":1}'],
    ['an ArrayBuffer', new ArrayBuffer(8)],
    ['a stream', new ReadableStream()],
    ['null', null],
  ])('W6 %s is an error that says where to mount the parser', ([, body]) => {
    const request = { ...signed(scheme), body: body as never }
    for (const call of [
      () => verifyWebhook(request, optionsOf(scheme)),
      () => fromWebhook(request, { ...optionsOf(scheme), source: 'shop' }),
    ]) {
      // The request is not at fault, so the sender must try again when the program was corrected: no 400.
      expect(call).toThrow(InvalidOptionError)
      expect(call).toThrow(/express\.raw\(.*Fastify.*rawBody.*arrayBuffer/)
    }
  })

  test('W6 a request without headers is an error of the program', () => {
    for (const request of [
      undefined,
      null,
      {},
      { body: Buffer.from('') },
      { headers: 7, body: Buffer.from('') },
    ]) {
      expect(() => verifyWebhook(request as never, optionsOf(scheme))).toThrow(InvalidOptionError)
    }
  })
})

test('W1 the id of Standard Webhooks is signed: without it, a request is no message, and with another one a forgery', () => {
  for (const id of [undefined, '']) {
    const request = withHeader(signed('standard'), 'webhook-id', id)
    expect(() => verifyWebhook(request, optionsOf('standard'))).toThrow(InvalidMessageError)
  }
  const other = withHeader(signed('standard'), 'webhook-id', 'msg_2')
  expect(() => verifyWebhook(other, optionsOf('standard'))).toThrow(InvalidSignatureError)
})

test.for(['webhook-timestamp', 'x-slack-request-timestamp'])('W1 the header %s is needed', (header) => {
  const scheme = header.startsWith('x-slack') ? 'slack' : 'standard'
  const missing = withHeader(signed(scheme), header, undefined)
  expect(() => verifyWebhook(missing, optionsOf(scheme))).toThrow(`The webhook has no header '${header}'.`)
  const twice = withHeader(signed(scheme), header, ['1', '2'])
  expect(() => verifyWebhook(twice, optionsOf(scheme))).toThrow(InvalidSignatureError)
})

test.for(['not base64!', 'whpk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_', `whsec_${'A'.repeat(100)}`])(
  'W1 %s is no secret of Standard Webhooks, and is not shown',
  (secret) => {
    const call = (): unknown => verifyWebhook(signed('standard'), { scheme: 'standard', secret })
    expect(call).toThrow(InvalidOptionError)
    expect(call).not.toThrow(secret.slice(6, 20) || 'whsec_ ')
  },
)
