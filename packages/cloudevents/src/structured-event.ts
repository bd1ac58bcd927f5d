import type { OutboxMessage } from '@txbox/core'
import { payloadForm } from '@txbox/core/internal'
import type { EventAttributes } from './event-attributes.ts'
import { withPayload } from './with-payload.ts'

const CONTENT_TYPE = 'application/cloudevents+json'
const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
const OTHER_CHARSET = /;\s*charset\s*=\s*"?(?!utf-?8\b)/i

/** Returns the message with its event in JSON as the payload. */
export function structuredEvent(
  message: OutboxMessage,
  attributes: EventAttributes,
  extensions: ReadonlySet<string>,
): OutboxMessage {
  const beginning = JSON.stringify(Object.fromEntries(attributes)).slice(0, -1)
  const [member, data] = dataOf(message)
  const payload = Buffer.concat([Buffer.from(`${beginning},"${member}":`), data, Buffer.from('}')])
  const own = Object.entries(message.headers).filter(([name]) => !extensions.has(name))
  return withPayload(message, {
    payload,
    contentType: CONTENT_TYPE,
    contentEncoding: undefined,
    headers: Object.fromEntries(own),
  })
}

/** JSON is taken over byte for byte, because numbers would lose digits if they were read and written again. */
function dataOf(message: OutboxMessage): readonly ['data' | 'data_base64', Uint8Array] {
  const { payload, contentType, contentEncoding } = message
  const form = contentType === '' || contentEncoding !== undefined ? 'bytes' : payloadForm(contentType)
  const text = form === 'bytes' || OTHER_CHARSET.test(contentType) ? undefined : textIn(payload)
  if (text !== undefined && form === 'json' && isJson(text)) return ['data', payload]
  if (text !== undefined && form === 'text') return ['data', Buffer.from(JSON.stringify(text))]
  const bytes = Buffer.from(payload.buffer, payload.byteOffset, payload.byteLength)
  return ['data_base64', Buffer.from(`"${bytes.toString('base64')}"`)]
}

function textIn(payload: Uint8Array): string | undefined {
  try {
    return UTF_8.decode(payload)
  } catch {
    return undefined
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
