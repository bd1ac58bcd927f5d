import { InvalidOptionError, days } from '@txbox/core'
import { OptionChecker } from '@txbox/core/internal'
import type { Scheme, VerifiedWebhook } from '../schemes/scheme.ts'
import { SCHEMES, SCHEME_NAMES, type WebhookScheme } from '../schemes/schemes.ts'
import { readRequest, type ReadRequest, type WebhookRequest } from '../schemes/webhook-request.ts'
import { webhookPayload } from './webhook-payload.ts'

/** As Standard Webhooks and Stripe have it. */
const TOLERANCE_MS = 300_000
const TOLERANCE_BOUNDS = { min: 1000, max: days(36_525) }
const MOST_SECRETS = 100

export interface VerifyWebhookOptions {
  /** How the sender signs: Standard Webhooks, or one of these providers. */
  scheme: WebhookScheme
  /**
   * The secret that the endpoint shares with the sender, or up to 100 while secrets are replaced: one of them must match. For
   * `'standard'` and `'stripe'` the text that begins with `whsec_`, for `'slack'` the signing secret, for `'shopify'` the client
   * secret of the app.
   */
  secret: string | readonly string[]
  /**
   * The largest difference between the time of the signature and this machine's clock, in both directions. 1 s to 100 years, in
   * milliseconds. GitHub and Shopify sign no time, so that for them the option has no effect.
   *
   * @default 300_000
   */
  toleranceMs?: number | undefined
}

/**
 * Checks the signature of a webhook over the raw bytes of its body, in a time that does not depend on the signature.
 *
 * @returns the id of the event or delivery, and the time of the signature, as far as the request has them.
 * @throws {InvalidSignatureError} when the signature is missing, malformed, made with none of the secrets, or out of the tolerance.
 * @throws {InvalidOptionError} for a wrong option, and for a body that was parsed before; the text says where to mount the parser.
 */
export function verifyWebhook(request: WebhookRequest, options: VerifyWebhookOptions): VerifiedWebhook {
  const check = new OptionChecker('verifyWebhook', options).known('scheme', 'secret', 'toleranceMs')
  const read = readRequest(check.where, request)
  const { scheme, timestamp } = verified(check, options, read)
  const { id } = scheme.read(read, membersOf(read))
  return { ...(id !== undefined && { id }), ...(timestamp !== undefined && { timestamp }) }
}

/** Checks the options, and then the signature. */
export function verified(
  check: OptionChecker,
  options: VerifyWebhookOptions,
  request: ReadRequest,
): { readonly scheme: Scheme; readonly timestamp: Date | undefined } {
  const scheme = schemeOf(check, options)
  const secrets = secretsOf(check, options, scheme)
  const toleranceMs = check.milliseconds('toleranceMs', { ...TOLERANCE_BOUNDS, default: TOLERANCE_MS })
  return { scheme, timestamp: scheme.verify(request, secrets, toleranceMs) }
}

/** @throws {InvalidOptionError} for a scheme that there is not. */
export function schemeOf(check: OptionChecker, { scheme }: VerifyWebhookOptions): Scheme {
  if (!SCHEME_NAMES.includes(scheme)) {
    throw check.wrong('scheme', SCHEME_NAMES.map((name) => `'${name}'`).join(' or '))
  }
  return SCHEMES[scheme]
}

function secretsOf(check: OptionChecker, { secret }: VerifyWebhookOptions, scheme: Scheme): Uint8Array[] {
  const given: readonly unknown[] = Array.isArray(secret) ? secret : [secret]
  const secrets = given.flatMap((each) => (typeof each === 'string' ? (scheme.secretOf(each) ?? []) : []))
  if (given.length > 0 && given.length <= MOST_SECRETS && secrets.length === given.length) return secrets
  if (given.length > MOST_SECRETS) throw check.wrong('secret', `at most ${MOST_SECRETS} secrets`)
  throw new InvalidOptionError(
    `${check.where}: the option 'secret' must be ${scheme.secretForm}, or a list of such secrets. ` +
      'One of them is missing, or is none; an environment variable may not be set.',
  )
}

/** The parsed body, from which some schemes take the id. The signature is genuine, so a body that cannot be parsed has no id. */
function membersOf(request: ReadRequest): unknown {
  try {
    return webhookPayload(undefined, request)
  } catch {
    return undefined
  }
}
