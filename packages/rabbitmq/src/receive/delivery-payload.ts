import { InvalidMessageError } from '@txbox/core'
import { decodePayload, oneLine, payloadForm } from '@txbox/core/internal'

/** Values of `content-encoding` that do not mean compression: some clients put the charset there. */
const PLAIN = /^(|identity|binary|[78]bit|utf-?8|us-ascii)$/i

/** @throws {InvalidMessageError} when the body does not match its content type. */
export function deliveryPayload(
  id: string,
  content: Uint8Array,
  properties: { readonly contentType?: unknown; readonly contentEncoding?: unknown },
): unknown {
  const contentType = typeof properties.contentType === 'string' ? properties.contentType : ''
  // A view, without a copy: the payload is documented as a Uint8Array, not as a Buffer.
  if (payloadForm(contentType) === 'bytes') {
    return new Uint8Array(content.buffer, content.byteOffset, content.byteLength)
  }
  const encoding = properties.contentEncoding
  if (typeof encoding === 'string' && !PLAIN.test(encoding)) {
    throw new InvalidMessageError(
      `Message ${oneLine(id)} has the content encoding '${oneLine(encoding)}'. Decode its content, and pass on a delivery with that content ` +
        'and without the encoding.',
    )
  }
  return decodePayload({ id, contentType, payload: content }, 'any')
}
