import { InvalidOptionError } from '@txbox/core'
import { hmacOf } from '../schemes/hmac.ts'
import { STANDARD_HEADERS } from '../schemes/standard-scheme.ts'
import { standardSecret } from '../schemes/standard-secret.ts'
import type { Headers } from './wire-headers.ts'

const LEAST_SECRET_BYTES = 24
const MOST_SECRETS = 10

/** @throws {InvalidOptionError} for a secret that is none; the text does not show the secret. */
export function signingSecrets(secret: unknown): readonly Uint8Array[] {
  const given: readonly unknown[] = Array.isArray(secret) ? secret : [secret]
  const secrets = given.flatMap((each) =>
    typeof each === 'string' ? (standardSecret(each, LEAST_SECRET_BYTES) ?? []) : [],
  )
  if (secrets.length > 0 && secrets.length === given.length && given.length <= MOST_SECRETS) return secrets
  throw new InvalidOptionError(
    `webhookPublisher: 'secret' must be 'whsec_' and the Base64 of ${LEAST_SECRET_BYTES} to 64 bytes, or a list of 1 to ${MOST_SECRETS} such secrets.`,
  )
}

/** The headers that sign an attempt as Standard Webhooks prescribes. Without a secret, only the time of the attempt. */
export function signatureHeaders(id: string, body: Uint8Array, secrets: readonly Uint8Array[]): Headers {
  const seconds = String(Math.floor(Date.now() / 1000))
  const signatures = secrets.map(
    (secret) => `v1,${hmacOf(secret, [`${id}.${seconds}.`, body]).toString('base64')}`,
  )
  return {
    [STANDARD_HEADERS.timestamp]: seconds,
    ...(signatures.length > 0 && { [STANDARD_HEADERS.signature]: signatures.join(' ') }),
  }
}
