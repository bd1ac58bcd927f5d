import { InvalidMessageError, type InboxMessage } from '@txbox/core'
import type { ReceivedMessage } from '@txbox/core/ports'
import { DEDUPLICATION_HEADER, isJson, oneLine, reasonOf } from '@txbox/core/internal'
import type { Received } from './queue.ts'
import { receiptText } from './receipts.ts'

const UTF_8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
/** Content types of text that is decoded as UTF-8: without a charset, or with the charset UTF-8. */
const TEXT = /^text\/[^;]*(?:;\s*charset="?utf-?8"?\s*)?$/i

/** Converts a stored message to the form that receivers get. */
export function receivedMessage<P>(queue: string, stored: ReceivedMessage): Received<P> {
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

export function decodedMessage<P>(stored: ReceivedMessage): {
  readonly message: InboxMessage<P>
  readonly undecodable?: Error
} {
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

function decoded({ id, payload, contentType, undecodable }: ReceivedMessage): {
  readonly payload: unknown
  readonly undecodable?: Error
} {
  if (undecodable !== undefined) return { payload, undecodable: new InvalidMessageError(undecodable) }
  try {
    if (isJson(contentType)) return { payload: JSON.parse(UTF_8.decode(payload)) as unknown }
    return { payload: TEXT.test(contentType) ? UTF_8.decode(payload) : payload }
  } catch (error) {
    const text =
      `The payload of the message '${oneLine(id)}' is not what its content type '${oneLine(contentType)}' says: ` +
      // The message of a JSON.parse error quotes the payload, which must not appear in logs.
      (error instanceof SyntaxError ? 'it is not valid JSON.' : `${reasonOf(error, 200)}.`)
    return { payload, undecodable: new InvalidMessageError(text) }
  }
}
