import { InvalidMessageError, type InboxMessage } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { DEDUPLICATION_HEADER, copyBytes, decodePayload } from '@txbox/core/internal'
import type { Received } from './queue.ts'
import { receiptText } from './receipts.ts'

export function receivedMessage<P>(queue: string, stored: QueueMessage): Received<P> {
  const { key, headers, receives, visibleAt } = stored
  const { message, undecodable } = decodedMessage<P>(stored)
  const deduplicationId = headers[DEDUPLICATION_HEADER]
  return {
    receipt: receiptText(queue, stored),
    message,
    ...(key === undefined ? {} : { key }),
    ...(deduplicationId === undefined ? {} : { deduplicationId }),
    receives,
    visibleAt,
    ...(undecodable === undefined ? {} : { undecodable }),
  }
}

interface Decoded<P> {
  readonly message: InboxMessage<P>
  readonly undecodable?: Error
}

/** Decodes a message into objects of its own: what a handler changes in the message does not change what is stored. */
export function ownMessage<P>(stored: QueueMessage): Decoded<P> {
  const { message, undecodable } = decodedMessage<P>(stored)
  if (undecodable !== undefined) return { message, undecodable }
  const { payload } = message
  const own = {
    headers: { ...stored.headers },
    time: new Date(stored.createdAt),
    payload: payload instanceof Uint8Array ? (copyBytes(payload) as P) : payload,
  }
  return { message: Object.assign(message, own) }
}

export function decodedMessage<P>(stored: QueueMessage): Decoded<P> {
  const { id, type, headers, correlationId, createdAt } = stored
  const { payload, undecodable } = decoded(stored)
  const message: InboxMessage = {
    id,
    ...(type !== undefined && { type }),
    headers,
    ...(correlationId !== undefined && { correlationId }),
    time: createdAt,
    payload,
  }
  return { message: message as InboxMessage<P>, ...(undecodable !== undefined && { undecodable }) }
}

function decoded(stored: QueueMessage): { readonly payload: unknown; readonly undecodable?: Error } {
  const { payload, undecodable } = stored
  if (undecodable !== undefined) return { payload, undecodable: new InvalidMessageError(undecodable) }
  try {
    return { payload: decodePayload(stored, 'txbox') }
  } catch (error) {
    return { payload, undecodable: error as InvalidMessageError }
  }
}
