import type { BacklogMessage, OutboxMessage } from '@txbox/core'

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The errors that were thrown because a payload cannot be decoded. */
const undecodable = new WeakSet<object>()

/** Whether the error was thrown by reading a message's payload: every other attempt would fail as well. */
export function isUndecodable(error: unknown): boolean {
  return typeof error === 'object' && error !== null && undecodable.has(error)
}

/** A message of the backlog as a publisher receives it. */
export class RelayedMessage implements OutboxMessage {
  readonly id: string
  readonly topic: string
  declare readonly type?: string
  declare readonly key?: string
  readonly payload: Uint8Array
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  declare readonly correlationId?: string
  readonly createdAt: Date
  readonly attempt: number

  constructor(stored: BacklogMessage) {
    this.id = stored.id
    this.topic = stored.topic
    if (stored.type !== undefined) this.type = stored.type
    if (stored.key !== undefined) this.key = stored.key
    this.payload = stored.payload
    this.contentType = stored.contentType
    this.headers = stored.headers
    if (stored.correlationId !== undefined) this.correlationId = stored.correlationId
    this.createdAt = stored.createdAt
    this.attempt = stored.attempts + 1
  }

  text(): string {
    return decoding(() => utf8.decode(this.payload))
  }

  json<P = unknown>(): P {
    const text = this.text()
    return decoding(() => JSON.parse(text) as P)
  }
}

function decoding<R>(decode: () => R): R {
  try {
    return decode()
  } catch (error) {
    undecodable.add(error as object)
    throw error
  }
}
