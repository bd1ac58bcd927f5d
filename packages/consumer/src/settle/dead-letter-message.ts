import type { OutboxMessage } from '@txbox/core'
import { jsonOf, reasonOf, textOf, uuidV7 } from '@txbox/core/internal'
import type { HeldDelivery } from '../receive/held-delivery.ts'

const ERROR_CHARACTERS = 1000

/** Creates the dead letter that is published for a message that cannot be handled. */
export function deadLetterMessage(held: HeldDelivery, topic: string, error: unknown): OutboxMessage {
  const { message } = held
  const { bytes, contentType } = encoded(message.payload)
  const { key } = held.delivery
  const letter: OutboxMessage = {
    id: isText(message.id) ? message.id : uuidV7(),
    topic,
    ...(isText(message.type) ? { type: message.type } : {}),
    ...(key === undefined ? {} : { key }),
    payload: bytes,
    text: () => textOf(letter),
    json: <P>() => jsonOf(letter) as P,
    contentType,
    headers: {
      ...message.headers,
      'txbox-error': reasonOf(error, ERROR_CHARACTERS),
      'txbox-deliveries': String(held.deliveries),
      'txbox-source': held.source,
    },
    ...(isText(message.correlationId) ? { correlationId: message.correlationId } : {}),
    createdAt: createdAt(message),
    attempt: 1,
  }
  return letter
}

function encoded(payload: unknown): { bytes: Uint8Array; contentType: string } {
  if (payload instanceof Uint8Array) return { bytes: payload, contentType: 'application/octet-stream' }
  if (typeof payload === 'string') {
    return { bytes: new TextEncoder().encode(payload), contentType: 'text/plain; charset=utf-8' }
  }
  return { bytes: new TextEncoder().encode(jsonText(payload)), contentType: 'application/json' }
}

/** A payload that cannot be written as JSON did not come from JSON. Its dead letter has everything except the payload. */
function jsonText(payload: unknown): string {
  try {
    return JSON.stringify(payload) ?? 'null'
  } catch {
    return 'null'
  }
}

/** Reads the time of a message. A source that is not part of txbox may have set it to a value of any type. */
function createdAt({ time }: { readonly time?: unknown }): Date {
  const isDate = Object.prototype.toString.call(time) === '[object Date]'
  const isReadable = isDate || typeof time === 'string' || typeof time === 'number'
  const given = new Date(isReadable ? (time as Date | string | number) : Number.NaN)
  return Number.isNaN(given.getTime()) ? new Date() : given
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}
