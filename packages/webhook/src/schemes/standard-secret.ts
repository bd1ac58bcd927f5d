const PREFIX = 'whsec_'
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/
const LARGEST_SECRET_BYTES = 64

/** The bytes of a secret of Standard Webhooks, with or without its prefix; `undefined` if the text is no such secret. */
export function standardSecret(secret: string, leastBytes: number): Buffer | undefined {
  const text = secret.startsWith(PREFIX) ? secret.slice(PREFIX.length) : secret
  if (!BASE64.test(text)) return undefined
  const bytes = Buffer.from(text, 'base64')
  return bytes.byteLength >= leastBytes && bytes.byteLength <= LARGEST_SECRET_BYTES ? bytes : undefined
}
