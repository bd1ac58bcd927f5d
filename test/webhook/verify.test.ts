import * as fc from 'fast-check'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test, vi } from 'vitest'
import { InvalidSignatureError, verifyWebhook, type WebhookRequest } from '@txbox/webhook'
import { SCHEMES, SECRETS, optionsOf, signed } from '../support/subjects/signed-webhooks.ts'

const CENTURY_MS = 3_155_760_000_000

function isGenuine(request: WebhookRequest, secret: string | string[] = SECRETS.standard): boolean {
  try {
    verifyWebhook(request, { scheme: 'standard', secret })
    return true
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidSignatureError)
    return false
  }
}

/** The verdict of the library that Standard Webhooks publishes. */
function oracle({ headers, body }: WebhookRequest): boolean {
  try {
    new Webhook(SECRETS.standard).verify(Buffer.from(body), headers as Record<string, string>, {
      jsonParse: false,
    })
    return true
  } catch {
    return false
  }
}

describe('published vectors', () => {
  test('W1 the example of Standard Webhooks', () => {
    const headers = {
      'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      'webhook-timestamp': '1614265330',
      'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    }
    const request = { headers, body: Buffer.from('{"test": 2432232314}') }
    const options = { scheme: 'standard', toleranceMs: CENTURY_MS } as const
    const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
    expect(verifyWebhook(request, { ...options, secret })).toEqual({
      id: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
      timestamp: new Date(1_614_265_330_000),
    })
    expect(verifyWebhook(request, { ...options, secret: secret.slice('whsec_'.length) })).toBeDefined()
    expect(() => verifyWebhook(request, { scheme: 'standard', secret })).toThrow(/was signed .* ago/)
  })

  test('W1 the example of GitHub', () => {
    const headers = {
      'X-Hub-Signature-256': 'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
    }
    const request = { headers, body: Buffer.from('Hello, World!') }
    expect(verifyWebhook(request, { scheme: 'github', secret: "It's a Secret to Everybody" })).toEqual({})
    expect(() => verifyWebhook(request, { scheme: 'github', secret: "It's a Secret" })).toThrow(
      InvalidSignatureError,
    )
  })

  test('W1 the example of Slack', () => {
    const body =
      'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar' +
      '&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com' +
      '%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c'
    const headers = {
      'X-Slack-Signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      'X-Slack-Request-Timestamp': '1531420618',
      'content-type': 'application/x-www-form-urlencoded',
    }
    const options = {
      scheme: 'slack',
      secret: '8f742231b10e8888abcd99yyyzzz85a5',
      toleranceMs: CENTURY_MS,
    } as const
    expect(verifyWebhook({ headers, body: Buffer.from(body) }, options)).toEqual({
      timestamp: new Date(1_531_420_618_000),
    })
  })

  // Stripe and Shopify publish the algorithm only. These signatures were made with the command openssl.
  test('W1 signatures of Stripe and of Shopify that openssl has made', () => {
    const stripe = {
      headers: {
        'Stripe-Signature':
          't=1492774577,v1=4ac9abe8f567368a070cae36e5b944b6000a3df3e08390a4ae4d8bad8233b159,' +
          'v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39',
      },
      body: Buffer.from('{"id":"evt_1"}'),
    }
    expect(verifyWebhook(stripe, { ...optionsOf('stripe'), toleranceMs: CENTURY_MS })).toEqual({
      id: 'evt_1',
      timestamp: new Date(1_492_774_577_000),
    })
    const shopify = {
      headers: { 'X-Shopify-Hmac-SHA256': '1NzAh7pDpBgMM9e4VZf++D/BVy8t3zWtuIiSOZH71qA=' },
      body: Buffer.from('{"id":1}'),
    }
    expect(verifyWebhook(shopify, optionsOf('shopify'))).toEqual({})
  })
})

describe('Standard Webhooks beside the published library', () => {
  test('W1 every delivery that the library signs is genuine', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, unit: fc.constantFrom('a', 'b', '-', '_', '0') }),
        fc.string(),
        (id, body) => {
          const at = new Date()
          const signature = new Webhook(SECRETS.standard).sign(id, at, body)
          const headers = {
            'webhook-id': id,
            'webhook-timestamp': `${Math.floor(at.getTime() / 1000)}`,
            'webhook-signature': signature,
          }
          const request = { headers, body: Buffer.from(body) }
          expect(verifyWebhook(request, optionsOf('standard'))).toMatchObject({ id })
          expect(isGenuine(request, 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD')).toBe(false)
          expect(isGenuine(request, ['whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD', SECRETS.standard])).toBe(true)
        },
      ),
    )
  })

  test('W1 a changed delivery is genuine exactly if it is for the library', () => {
    const change = fc.record({
      header: fc.constantFrom('webhook-timestamp', 'webhook-signature', 'webhook-id'),
      at: fc.nat({ max: 60 }),
      text: fc.constantFrom('', 'v1', ',', ' ', '=', 'A', '9', '\t', 'v1,AAAA', ' v1a,', '-', '.', 'é'),
      remove: fc.nat({ max: 3 }),
    })
    fc.assert(
      fc.property(change, ({ header, at, text, remove }) => {
        const request = signed('standard')
        const value = request.headers[header]!
        request.headers[header] = value.slice(0, at) + text + value.slice(at + remove)
        // An empty id is an error of another kind.
        fc.pre(request.headers['webhook-id'] !== '' && request.headers['webhook-id']!.trim() !== '')
        // Stricter than the library: it reads '1793 xyz' and ' 1793' as the time 1793.
        if (isGenuine(request)) expect(oracle(request)).toBe(true)
        else if (/^\d+$/.test(request.headers['webhook-timestamp']!)) expect(oracle(request)).toBe(false)
      }),
      { numRuns: 1000 },
    )
  })
})

describe.for(SCHEMES)('%s', (scheme) => {
  test('W1 a genuine delivery passes, with headers of every form and names in every case', () => {
    const { headers, body } = signed(scheme)
    const upper = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.toUpperCase(), value]),
    )
    const lists = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value]]))
    for (const each of [headers, upper, lists, new Headers(headers)]) {
      expect(verifyWebhook({ headers: each, body }, optionsOf(scheme))).toHaveProperty('id')
      expect(verifyWebhook({ headers: each, body: new Uint8Array(body) }, optionsOf(scheme))).toHaveProperty(
        'id',
      )
    }
  })

  test('W1 while secrets are replaced, one of several secrets must match', () => {
    const others = [SECRETS.standard, 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'].filter(
      (each) => each !== SECRETS[scheme],
    )
    const request = signed(scheme)
    expect(verifyWebhook(request, { scheme, secret: [...others, SECRETS[scheme]] })).toBeDefined()
    expect(verifyWebhook(request, { scheme, secret: [SECRETS[scheme], ...others] })).toBeDefined()
    expect(() => verifyWebhook(request, { scheme, secret: others })).toThrow(InvalidSignatureError)
  })

  test('W1 property: whatever byte of the body or of the signature is changed, the delivery is refused', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 300 }),
        fc.nat(),
        fc.integer({ min: 1, max: 255 }),
        (body, at, bits) => {
          const request = signed(scheme, { body })
          expect(verifyWebhook(request, optionsOf(scheme))).toBeDefined()
          const changed = Uint8Array.from(body)
          changed[at % body.length]! ^= bits
          const longer = Uint8Array.from([...body, bits])
          for (const other of [changed, longer, body.subarray(1)]) {
            expect(() => verifyWebhook({ ...request, body: other }, optionsOf(scheme))).toThrow(
              InvalidSignatureError,
            )
          }
        },
      ),
    )
  })
})

describe.for(['standard', 'stripe', 'slack'] as const)('the time of %s', (scheme) => {
  test('W1 a time up to the tolerance away is accepted, in both directions, and none beyond', () => {
    const now = 1_793_738_400
    vi.useFakeTimers({ now: now * 1000 + 999, toFake: ['Date'] })
    try {
      for (const ago of [0, 1, -1, 300, -300]) {
        expect(verifyWebhook(signed(scheme, { at: now - ago }), optionsOf(scheme))).toMatchObject({
          timestamp: new Date((now - ago) * 1000),
        })
      }
      for (const ago of [301, -301, 86_400]) {
        const request = signed(scheme, { at: now - ago })
        expect(() => verifyWebhook(request, optionsOf(scheme))).toThrow(InvalidSignatureError)
        expect(() => verifyWebhook(request, optionsOf(scheme))).toThrow(
          ago > 0 ? /signed .* ago.*'toleranceMs' is 300000/ : /ahead of this clock/,
        )
        expect(verifyWebhook(request, { ...optionsOf(scheme), toleranceMs: 86_400_000 })).toBeDefined()
      }
    } finally {
      vi.useRealTimers()
    }
  })

  test('W1 a signed time that is no decimal number of seconds is refused', () => {
    for (const at of [
      '1e9',
      '0x6af0',
      ' ',
      '1793738400.5',
      '-1',
      '+1',
      '１７９',
      '',
      '99999999999999',
      'NaN',
    ]) {
      const request = signed(scheme, { at: at as never })
      expect(() => verifyWebhook(request, { ...optionsOf(scheme), toleranceMs: CENTURY_MS })).toThrow(
        InvalidSignatureError,
      )
    }
  })
})
