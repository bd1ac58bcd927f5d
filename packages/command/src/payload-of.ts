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

/**
 * Parses JSON to a value that can be written as JSON again.
 *
 * @throws when the text is not JSON, or is nested too deeply to be written as JSON: reading JSON has no such limit.
 */
export function shownJson(text: string): unknown {
  return writable(JSON.parse(text))
}

function writable(value: unknown): unknown {
  JSON.stringify(value)
  return value
}
