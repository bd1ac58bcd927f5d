import type { OutboxMessage } from '@txbox/core'
import { CALLED_AT_HEADER, RELAY_HEADER } from './worker-protocol.ts'

/** A message that says in its headers which relay published it, and when the call began. */
export function stampedMessage(message: OutboxMessage, relay: string, calledAtMs: number): OutboxMessage {
  return {
    id: message.id,
    topic: message.topic,
    ...(message.type !== undefined && { type: message.type }),
    ...(message.key !== undefined && { key: message.key }),
    ...(message.correlationId !== undefined && { correlationId: message.correlationId }),
    payload: message.payload,
    text: () => message.text(),
    json: <P>() => message.json<P>(),
    contentType: message.contentType,
    headers: {
      ...message.headers,
      [RELAY_HEADER]: relay,
      [CALLED_AT_HEADER]: String(calledAtMs),
    },
    createdAt: message.createdAt,
    attempt: message.attempt,
  }
}
