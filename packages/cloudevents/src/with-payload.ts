import type { OutboxMessage } from '@txbox/core'
import { jsonOf, textOf } from '@txbox/core/internal'

interface Changes {
  readonly headers: OutboxMessage['headers']
  readonly payload?: Uint8Array
  readonly contentType?: string
  /** `undefined` removes the encoding. */
  readonly contentEncoding?: undefined
}

/** Returns a message with some fields changed. The message that is given stays as it is. */
export function withPayload(message: OutboxMessage, changes: Changes): OutboxMessage {
  const { contentEncoding, ...others } = message
  const encoding = 'contentEncoding' in changes ? undefined : contentEncoding
  const { payload = message.payload, contentType = message.contentType, headers } = changes
  const changed = {
    ...others,
    ...(encoding !== undefined && { contentEncoding: encoding }),
    ...{ payload, contentType, headers },
    text: () => textOf(changed),
    json: <P>() => jsonOf(changed) as P,
  }
  return changed
}
