import { InvalidMessageError, type InboxMessage, type MessageIdentity } from '@txbox/core'
import type { QueueMessage } from '@txbox/core/ports'
import { DEDUPLICATION_HEADER, decodePayload } from '@txbox/core/internal'
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

export function decodedMessage<P>(stored: QueueMessage): Decoded<P> {
  const { payload, undecodable } = decoded(stored)
  const message: InboxMessage = Object.assign(identityOf(stored), { payload })
  return { message: message as InboxMessage<P>, ...(undecodable !== undefined && { undecodable }) }
}

/** Reads a message apart from its payload. */
export function identityOf({ id, type, headers, correlationId, createdAt }: QueueMessage): MessageIdentity {
  return {
    id,
    ...(type !== undefined && { type }),
    headers,
    ...(correlationId !== undefined && { correlationId }),
    time: new Date(createdAt),
  }
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
