import { InvalidOptionError, type InboxMessage } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import type { ConsumerContext, Guard } from '../options/consumer.ts'

/**
 * Asks the guard whether a message is stale.
 *
 * @throws {InvalidOptionError} for any other answer than `'apply'` and `'stale'`: a message must not be applied because of a
 *   misspelled answer, or because of `false`.
 */
export async function isStale(
  guard: Guard<unknown> | undefined,
  tx: unknown,
  message: InboxMessage,
): Promise<boolean> {
  if (guard === undefined) return false
  const answer: unknown = await guard(tx, message)
  if (answer === 'apply' || answer === 'stale') return answer === 'stale'
  throw new InvalidOptionError(
    `createConsumer: the option 'guard' must return 'apply' or 'stale', not ${nameOf(answer)}. The handler was not called, and ` +
      'what the guard wrote is rolled back.',
  )
}

/** Calls a handler with the messages of a batch that the guard does not report as stale. @returns the stale messages. */
export async function guarded(
  guard: Guard<unknown> | undefined,
  tx: unknown,
  batch: { readonly messages: readonly InboxMessage[]; readonly contexts: readonly ConsumerContext[] },
  handler: (tx: unknown, messages: unknown, contexts: unknown) => unknown,
): Promise<ReadonlySet<InboxMessage>> {
  const stale = new Set<InboxMessage>()
  for (const message of batch.messages) if (await isStale(guard, tx, message)) stale.add(message)
  const messages = batch.messages.filter((message) => !stale.has(message))
  const contexts = batch.contexts.filter((_, n) => !stale.has(batch.messages[n]!))
  if (messages.length > 0) await handler(tx, messages, contexts)
  return stale
}
