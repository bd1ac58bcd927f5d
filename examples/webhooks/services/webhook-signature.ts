import { createHmac, timingSafeEqual } from 'node:crypto'

/** The header X-Hub-Signature-256, as GitHub makes it. */
export function signatureOf(secret: string, body: string): string {
  return `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`
}

export function isSignedBy(secret: string, body: string, signature: string | string[] | undefined): boolean {
  const expected = Buffer.from(signatureOf(secret, body))
  const given = Buffer.from(String(signature))
  return given.length === expected.length && timingSafeEqual(given, expected)
}
