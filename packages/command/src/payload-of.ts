import { decodePayload } from '@txbox/core/internal'

/**
 * Returns a payload in the form in which it is shown: JSON as JSON, other text as text, and any other bytes in Base64.
 */
export function payloadOf(contentType: string, payload: Uint8Array): Record<string, unknown> {
  try {
    const value = decodePayload({ id: '', contentType, payload }, 'txbox')
    if (value !== payload) return { payload: writable(value) }
  } catch {
    // The payload does not match its content type, so it is shown as bytes.
  }
  return { payloadBase64: Buffer.from(payload).toString('base64') }
}

/** Returns the value. @throws when it is nested too deeply to be written as JSON: reading JSON has no such limit. */
export function writable(value: unknown): unknown {
  JSON.stringify(value)
  return value
}
