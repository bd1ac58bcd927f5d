import type { InboxMessage } from '@txbox/core'
import type { ConsumerContext, Guard } from './consumer.ts'

/** Calls a handler with the messages of a batch that the guard does not report as stale. @returns the stale messages. */
export async function guarded(
  guard: Guard<unknown> | undefined,
  tx: unknown,
  batch: { readonly messages: readonly InboxMessage[]; readonly contexts: readonly ConsumerContext[] },
  handler: (tx: unknown, messages: unknown, contexts: unknown) => unknown,
): Promise<ReadonlySet<InboxMessage>> {
  const stale = new Set<InboxMessage>()
  if (guard !== undefined) {
    for (const message of batch.messages) if ((await guard(tx, message)) === 'stale') stale.add(message)
  }
  const messages = batch.messages.filter((message) => !stale.has(message))
  const contexts = batch.contexts.filter((_, n) => !stale.has(batch.messages[n]!))
  if (messages.length > 0) await handler(tx, messages, contexts)
  return stale
}
