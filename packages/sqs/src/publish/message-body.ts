/** The characters that SQS and SNS do not take in texts, because XML does not allow them. */
const NOT_IN_TEXTS = /[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** A body must not be empty: this one stands for an empty payload, together with the encoding `empty`. */
const EMPTY_BODY = '-'

/** How a payload is written in a body, if it is not the body itself. */
export type BodyEncoding = 'base64' | 'empty'

/** Whether SQS and SNS take this text unchanged, as a body or the value of an attribute. */
export function isSendableText(text: string): boolean {
  return text !== '' && !NOT_IN_TEXTS.test(text)
}

/** Returns the text with U+FFFD for each character that SQS and SNS do not take. */
export function sendableText(text: string): string {
  return text.replaceAll(new RegExp(NOT_IN_TEXTS, 'gu'), '\uFFFD')
}

/** Returns the payload as text, as it is where that is possible. */
export function bodyOf(payload: Uint8Array): {
  readonly body: string
  readonly encoding: BodyEncoding | undefined
} {
  if (payload.byteLength === 0) return { body: EMPTY_BODY, encoding: 'empty' }
  const text = textOf(payload)
  if (text !== undefined && isSendableText(text)) return { body: text, encoding: undefined }
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
  return { body: bytes.toString('base64'), encoding: 'base64' }
}

/**
 * Returns the payload of a body.
 *
 * @returns `undefined` if the body is not what its encoding says, or the encoding is unknown.
 */
export function payloadOf(body: string, encoding: string | undefined): Uint8Array | undefined {
  if (encoding === undefined) return new Uint8Array(Buffer.from(body))
  if (encoding === 'empty') return new Uint8Array(0)
  if (encoding !== 'base64') return undefined
  const bytes = Buffer.from(body, 'base64')
  return bytes.toString('base64') === body ? new Uint8Array(bytes) : undefined
}

function textOf(payload: Uint8Array): string | undefined {
  try {
    return UTF_8.decode(payload)
  } catch {
    return undefined
  }
}
