import { RetryLaterError, type OutboxMessage, type PublishResult } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import type { RedisRefusal } from '../connection/redis-refusal.ts'

/**
 * The result of a message that Redis has refused for a reason that is its stream's; `undefined` for all other reasons, such as a server
 * without memory: they are outages, and nothing is known of the messages in flight.
 *
 * @param wasSeen whether this publisher has published to the stream before: then a stream that is none any more is an outage of its own.
 */
export function refusedResult(
  { id }: OutboxMessage,
  stream: string,
  { word, message: text }: RedisRefusal,
  wasSeen: boolean,
): PublishResult | undefined {
  const refused = (says: string, counted: boolean): PublishResult => {
    const message = `Message ${oneLine(id)} was not accepted for stream '${oneLine(stream, 100)}' (${text}): ${says}.`
    return {
      status: 'rejected',
      retryable: true,
      error: new RetryLaterError({ message }),
      ...(counted ? {} : { counted }),
    }
  }
  if (word === 'WRONGTYPE') {
    return refused(
      'the key of this name holds no stream. Publish to another stream, or delete the key',
      !wasSeen,
    )
  }
  if (word === 'NOPERM') return refused('the user may not write to the stream. Grant +xadd and the key', true)
  if (word === 'ERR' && text.includes('exhausted the last possible ID')) {
    return refused(
      'its last id is the largest one, so that the stream takes nothing more. Set its id by XSETID',
      false,
    )
  }
  return undefined
}

/** Returns the reason of an outage that Redis has reported, with a hint where one is known. */
export function outageReason({ word, message }: RedisRefusal): string {
  if (word === 'MOVED' || word === 'ASK' || word === 'CROSSSLOT') {
    return `${message}: the server is one of a cluster. Pass a cluster client by the option 'client'`
  }
  return message
}
