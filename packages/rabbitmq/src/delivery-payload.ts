import { InvalidMessageError } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'

/** Values of `content-encoding` that do not mean compression: some clients put the charset there. */
const PLAIN = /^(|identity|binary|[78]bit|utf-?8|us-ascii)$/i

/**
 * The body of a delivery, by its content type.
 *
 * @throws {InvalidMessageError} when the body does not match the content type.
 */
export function deliveryPayload(
  id: string,
  content: Uint8Array,
  properties: { readonly contentType?: unknown; readonly contentEncoding?: unknown },
): unknown {
  const contentType = typeof properties.contentType === 'string' ? properties.contentType : ''
  const json = contentType === '' || /^[^;]*[/+]json\s*(;|$)/i.test(contentType)
  // A view, without a copy: the payload is documented as a Uint8Array, not as a Buffer.
  if (!json && !/^text\//i.test(contentType)) {
    return new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
  }
  const encoding = properties.contentEncoding
  if (typeof encoding === 'string' && !PLAIN.test(encoding)) {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(encoding)}'. Decode its content, and pass on a delivery with that content ` +
        'and without the encoding.',
    )
  }
  const text = decoded(id, content, contentType, { ignoreBOM: !json })
  if (!json) return text
  try {
    return JSON.parse(text)
  } catch {
    // The parser's error is not passed on as the cause, because its text quotes the body.
    const what =
      contentType === ''
        ? 'no content type, which stands for JSON'
        : `the content type '${oneLine(contentType)}'`
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has ${what}, but its body is not JSON. Make the producer set the content type that matches the body, ` +
        "such as 'application/octet-stream' for bytes.",
    )
  }
}

/** Creating a decoder costs more than decoding a small body, and nearly all bodies are in UTF-8. */
const UTF_8 = [true, false].map((ignoreBOM) => new TextDecoder('utf-8', { fatal: true, ignoreBOM }))

function decoderOf(charset: string, { ignoreBOM }: { ignoreBOM: boolean }): (typeof UTF_8)[number] {
  const known = charset === 'utf-8' ? UTF_8.find((decoder) => decoder.ignoreBOM === ignoreBOM) : undefined
  return known ?? new TextDecoder(charset, { fatal: true, ignoreBOM })
}

function decoded(
  id: string,
  content: Uint8Array,
  contentType: string,
  options: { ignoreBOM: boolean },
): string {
  const charset = /;\s*charset\s*=\s*"?([^\s;"]+)/i.exec(contentType)?.[1] ?? 'utf-8'
  try {
    // A byte order mark is part of a text, but not of JSON, where it may be skipped.
    return decoderOf(charset, options).decode(content)
  } catch (error) {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has a body that is not text in ${oneLine(charset, 40)}, although its content type is '${oneLine(contentType)}'. Make the ` +
        "producer name the body's charset, or set the content type to 'application/octet-stream'.",
      { cause: error },
    )
  }
}
