/** The form in which a payload is shown: JSON as JSON, other text as text, and any other bytes in Base64. */
export function payloadOf(contentType: string, payload: Uint8Array): Record<string, unknown> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    if (/[/+]json\s*(;|$)/i.test(contentType)) return { payload: JSON.parse(text.decode(payload)) as unknown }
    if (contentType.startsWith('text/')) return { payload: text.decode(payload) }
  } catch {
    // The payload does not match its content type: it is shown as bytes.
  }
  return { payloadBase64: Buffer.from(payload).toString('base64') }
}
