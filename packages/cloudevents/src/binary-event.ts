import type { CloudEventsBinding, OutboxMessage } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { refusal, type EventAttributes } from './event-attributes.ts'
import { withPayload } from './with-payload.ts'

/**
 * Percent-encodes a value as the bindings for HTTP and NATS prescribe: spaces, quotes, percent signs, and all characters beyond
 * visible ASCII.
 */
function encoded(value: string): string {
  return value.replaceAll(/[^!#-$&-~]+/g, (text) =>
    [...Buffer.from(text)].map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join(''),
  )
}

/**
 * Returns the message with the attributes as headers. The payload and its content type stay as they are.
 *
 * @throws {PermanentError} when the message has a header with the name of an attribute.
 */
export function binaryEvent(
  message: OutboxMessage,
  attributes: EventAttributes,
  { prefix, contentTypeAsAttribute, percentEncode }: CloudEventsBinding,
  extensions: ReadonlySet<string>,
): OutboxMessage {
  const events: [string, string][] = []
  for (const [name, value] of attributes) {
    // The message keeps its content type and content encoding, for which the broker has fields of its own.
    if (name === 'contentencoding' || (name === 'datacontenttype' && !contentTypeAsAttribute)) continue
    events.push([`${prefix}${name}`, percentEncode ? encoded(value) : value])
  }
  const taken = new Set(events.map(([name]) => name))
  const own = Object.entries(message.headers).filter(([name]) => !extensions.has(name))
  const twice = own.find(([name]) => taken.has(name) || taken.has(name.toLowerCase()))
  if (twice !== undefined) {
    throw refusal(
      message.id,
      `its header '${oneLine(twice[0], 100)}' has the name of an attribute. Give the header another name`,
    )
  }
  return withPayload(message, { headers: Object.fromEntries([...own, ...events]) })
}
