import type { InboxMessage } from '@txbox/core'

/** A message as the handler of a local consumer receives it. */
export interface LocalInboxMessage<P = unknown> extends InboxMessage<P> {
  /** The ordering key; `undefined` if the message has none. */
  readonly key: string | undefined
  /** Where a relay publishes the same message; `undefined` if it has only local consumers. */
  readonly topic: string | undefined
  /** The id of the message whose handler has published this message with its own transaction. */
  readonly causationId?: string | undefined
}
