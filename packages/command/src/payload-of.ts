/** The form in which a payload is shown: JSON as JSON, other text as text, and any other bytes in Base64. */
export function payloadOf(contentType: string, payload: Uint8Array): Record<string, unknown> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    if (/[/+]json\s*(;|$)/i.test(contentType)) return { payload: shownJson(text.decode(payload)) }
    if (contentType.startsWith('text/')) return { payload: text.decode(payload) }
  } catch {
    // The payload does not match its content type: it is shown as bytes.
  }
  return { payloadBase64: Buffer.from(payload).toString('base64') }
}

/**
 * A value that can be written as JSON again.
 *
 * @throws when the text is no JSON, or is nested deeper than JSON can be written: reading JSON has no such bound.
 */
export function shownJson(text: string): unknown {
  const value: unknown = JSON.parse(text)
  JSON.stringify(value)
  return value
}
