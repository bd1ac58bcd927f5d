import { createHmac } from 'node:crypto'
import type { VerifyWebhookOptions, WebhookRequest, WebhookScheme } from '@txbox/webhook'

/** A secret in the form of each provider. */
export const SECRETS: Readonly<Record<WebhookScheme, string>> = {
  standard: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  stripe: 'whsec_test_of_stripe',
  github: "It's a Secret to Everybody",
  slack: '8f742231b10e8888abcd99yyyzzz85a5',
  shopify: 'shpss_test_of_shopify',
}

export const SCHEMES = Object.keys(SECRETS) as WebhookScheme[]

/** The header that has the signature of each provider. */
export const SIGNATURE_HEADERS: Readonly<Record<WebhookScheme, string>> = {
  standard: 'webhook-signature',
  stripe: 'stripe-signature',
  github: 'x-hub-signature-256',
  slack: 'x-slack-signature',
  shopify: 'x-shopify-hmac-sha256',
}

/** A body with the id that each provider has in the body. */
const BODIES: Readonly<Record<WebhookScheme, string>> = {
  standard: '{"type":"contact.created","timestamp":"2026-11-03T20:26:10.344522Z","data":{"id":"1f81eb52"}}',
  stripe: '{"id":"evt_1","object":"event","type":"invoice.paid","created":1793738400,"data":{}}',
  github: '{"action":"opened","number":7}',
  slack: '{"type":"event_callback","event_id":"Ev1","event_time":1793738400,"event":{"type":"app_mention"}}',
  shopify: '{"id":820982911946154508}',
}

export interface Signing {
  readonly body?: string | Uint8Array
  readonly secret?: string
  /** In seconds since 1970. @default now */
  readonly at?: number
  readonly headers?: Readonly<Record<string, string>>
}

type Sent = WebhookRequest & { readonly headers: Record<string, string> }

/** A webhook as its provider would send it, signed as the documentation of the provider describes. */
export function signed(scheme: WebhookScheme, signing: Signing = {}): Sent {
  const at = signing.at ?? Math.floor(Date.now() / 1000)
  const body = Buffer.from(signing.body ?? BODIES[scheme])
  const own = HEADERS[scheme](at, body, signing.secret ?? SECRETS[scheme])
  return { headers: { 'content-type': 'application/json', ...own, ...signing.headers }, body }
}

const HEADERS: Readonly<
  Record<WebhookScheme, (at: number, body: Buffer, secret: string) => Record<string, string>>
> = {
  standard: (at, body, secret) => ({
    'webhook-id': 'msg_1',
    'webhook-timestamp': `${at}`,
    'webhook-signature': `v1,${hmac(Buffer.from(secret.slice('whsec_'.length), 'base64'), `msg_1.${at}.`, body).toString('base64')}`,
  }),
  stripe: (at, body, secret) => ({
    'stripe-signature': `t=${at},v1=${hmac(secret, `${at}.`, body).toString('hex')}`,
  }),
  github: (_, body, secret) => ({
    'x-github-delivery': '72d3162e-cc78-11e3-81ab-4c9367dc0958',
    'x-github-event': 'issues',
    'x-hub-signature-256': `sha256=${hmac(secret, '', body).toString('hex')}`,
  }),
  slack: (at, body, secret) => ({
    'x-slack-request-timestamp': `${at}`,
    'x-slack-signature': `v0=${hmac(secret, `v0:${at}:`, body).toString('hex')}`,
  }),
  shopify: (_, body, secret) => ({
    'x-shopify-topic': 'orders/create',
    'x-shopify-event-id': '98880550-7158-44d4-b7cd-2c97c8a091b5',
    'x-shopify-webhook-id': 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
    'x-shopify-triggered-at': '2026-11-03T18:00:00.000Z',
    'x-shopify-hmac-sha256': hmac(secret, '', body).toString('base64'),
  }),
}

function hmac(secret: string | Buffer, prefix: string, body: Buffer): Buffer {
  return createHmac('sha256', secret)
    .update(Buffer.concat([Buffer.from(prefix), body]))
    .digest()
}

/** The options with which `signed(scheme)` is genuine. */
export function optionsOf(scheme: WebhookScheme): VerifyWebhookOptions {
  return { scheme, secret: SECRETS[scheme] }
}

/** The request with one header replaced, or without it. */
export function withHeader(
  request: Sent,
  name: string,
  value: string | string[] | undefined,
): WebhookRequest {
  const { [name]: _, ...others } = request.headers
  return { ...request, headers: value === undefined ? others : { ...others, [name]: value } }
}
