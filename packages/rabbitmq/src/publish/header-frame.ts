import { oneLine } from '@txbox/core/internal'
import type { OutgoingMessage } from './outgoing-message.ts'

/** The bytes of each header frame: of the frame, of the content header without properties, and of fixed properties. */
const FRAME_BYTES = 8
const CONTENT_HEADER_BYTES = 14
/** Delivery mode, timestamp, and the length of the headers. */
const FIXED_PROPERTY_BYTES = 13

/** The client writes at most this many bytes of headers, with the bytes of their lengths and types. */
const HEADERS_BYTES = 65_536
/** AMQP allows names of headers of at most this many bytes. */
const NAME_BYTES = 255

/** The size of the frame with the properties of a message: AMQP cannot split it over several frames. */
export function headerFrameBytes({ properties }: OutgoingMessage): number {
  const { messageId, type, correlationId, contentType, contentEncoding, headers } = properties
  let bytes = FRAME_BYTES + CONTENT_HEADER_BYTES + FIXED_PROPERTY_BYTES
  for (const text of [messageId, type, correlationId, contentType, contentEncoding]) {
    if (text !== undefined) bytes += 1 + Buffer.byteLength(text)
  }
  return bytes + bytesOf(headers)
}

/** Returns why headers are too large for AMQP; `undefined` if the headers are small enough. */
export function headersFlaw({ properties: { headers } }: OutgoingMessage): string | undefined {
  for (const name in headers) {
    const bytes = Buffer.byteLength(name)
    if (bytes > NAME_BYTES)
      return `the name of its header '${oneLine(name, 100)}' has ${bytes} bytes in UTF-8; AMQP allows ${NAME_BYTES}. Give it a shorter one`
  }
  const bytes = 4 + bytesOf(headers)
  if (bytes <= HEADERS_BYTES) return undefined
  return `its headers have ${bytes} bytes; ${HEADERS_BYTES} can be sent. Move data to the payload`
}

function bytesOf(headers: OutgoingMessage['properties']['headers']): number {
  let bytes = 0
  // The length of a name has one byte, the type of a value one, and its length four.
  for (const name in headers) bytes += 6 + Buffer.byteLength(name) + Buffer.byteLength(headers[name]!)
  return bytes
}
