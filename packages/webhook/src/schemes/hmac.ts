import { createHmac, timingSafeEqual } from 'node:crypto'
import { InvalidSignatureError } from './invalid-signature-error.ts'

/** The bytes of an HMAC with SHA-256. */
const HMAC_BYTES = 32

/** Computes the HMAC with SHA-256 of these parts, one after another. */
export function hmacOf(secret: Uint8Array, parts: readonly (string | Uint8Array)[]): Buffer {
  const hmac = createHmac('sha256', secret)
  for (const part of parts) hmac.update(part)
  return hmac.digest()
}

/**
 * Checks that one of the signatures was made with one of the secrets. Takes the same time for every wrong signature.
 *
 * @throws {InvalidSignatureError} when none was.
 */
export function checkHmac(
  header: string,
  signatures: readonly Uint8Array[],
  secrets: readonly Uint8Array[],
  parts: readonly (string | Uint8Array)[],
): void {
  let isGenuine = false
  for (const secret of secrets) {
    const expected = hmacOf(secret, parts)
    for (const signature of signatures) if (timingSafeEqual(signature, expected)) isGenuine = true
  }
  if (isGenuine) return
  throw new InvalidSignatureError(
    `The webhook's signature in the header '${header}' does not match its body. Check that the secret is the one of this endpoint, and ` +
      'that the body is passed as it was received, byte for byte.',
  )
}

/** Reads a signature in hexadecimal; `undefined` if the text is none. */
export function hexSignature(text: string): Buffer | undefined {
  return /^[0-9a-f]{64}$/i.test(text) ? Buffer.from(text, 'hex') : undefined
}

/** Reads a signature in Base64; `undefined` if the text is none. */
export function base64Signature(text: string): Buffer | undefined {
  if (!/^[A-Za-z0-9+/]{43}=$/.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64')
  // The last digit has two bits too many: with other bits, the text is another one.
  return bytes.byteLength === HMAC_BYTES && bytes.toString('base64') === text ? bytes : undefined
}

/** @throws {InvalidSignatureError} that names the header, and the form that was expected. */
export function malformed(header: string, expected: string): InvalidSignatureError {
  return new InvalidSignatureError(`The webhook's header '${header}' is malformed: expected ${expected}.`)
}
