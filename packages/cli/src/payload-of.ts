/** What a payload is shown as: JSON as it is, other text as text, and what is neither in Base64. */
export function payloadOf(contentType: string, payload: Uint8Array): Record<string, unknown> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
    if (/[/+]json\s*(;|$)/i.test(contentType)) return { payload: JSON.parse(text.decode(payload)) as unknown }
    if (contentType.startsWith('text/')) return { payload: text.decode(payload) }
  } catch {
    // The payload is not what its content type says: it is shown as the bytes that it is.
  }
  return { payloadBase64: Buffer.from(payload).toString('base64') }
}
