/**
 * Returns a payload in the form in which it is shown: JSON as JSON, other text as text, and any other bytes in Base64.
 */
export function payloadOf(contentType: string, payload: Uint8Array): Record<string, unknown> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    if (/[/+]json\s*(;|$)/i.test(contentType)) return { payload: shownJson(text.decode(payload)) }
    if (contentType.startsWith('text/')) return { payload: text.decode(payload) }
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
  const value: unknown = JSON.parse(text)
  JSON.stringify(value)
  return value
}
