import type { OutgoingMessage } from './outgoing-message.ts'

/** The bytes of each header frame: of the frame, of the content header without properties, and of fixed properties. */
const FRAME_BYTES = 8
const CONTENT_HEADER_BYTES = 14
/** Delivery mode, timestamp, and the length of the headers. */
const FIXED_PROPERTY_BYTES = 13

/** The size of the frame with the properties of a message: AMQP cannot split it over several frames. */
export function headerFrameBytes({ properties }: OutgoingMessage): number {
  const { messageId, type, correlationId, contentType, contentEncoding, headers } = properties
  let bytes = FRAME_BYTES + CONTENT_HEADER_BYTES + FIXED_PROPERTY_BYTES
  for (const text of [messageId, type, correlationId, contentType, contentEncoding]) {
    if (text !== undefined) bytes += 1 + Buffer.byteLength(text)
  }
  // The length of a name has one byte, the type of a value one, and its length four.
  for (const name in headers) bytes += 6 + Buffer.byteLength(name) + Buffer.byteLength(headers[name]!)
  return bytes
}
