import { InvalidOptionError, type InboxMessage } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import type { ConsumerContext, Guard } from '../options/consumer.ts'
import type { HeldDelivery } from '../receive/held-delivery.ts'

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

/** A delivery of a batch, with the context of its handler. */
interface Handled {
  readonly held: HeldDelivery
  readonly context: ConsumerContext
}

/** Calls a handler with the messages of a batch that the guard does not report as stale. @returns the stale deliveries. */
export async function guarded(
  guard: Guard<unknown> | undefined,
  tx: unknown,
  batch: readonly Handled[],
  handler: (tx: unknown, messages: unknown, contexts: unknown) => unknown,
): Promise<ReadonlySet<HeldDelivery>> {
  const stale = new Set<HeldDelivery>()
  for (const { held } of inOrderOfRows(guard, batch)) {
    if (await isStale(guard, tx, held.message)) stale.add(held)
  }
  const fresh = batch.filter(({ held }) => !stale.has(held))
  const messages = fresh.map(({ held }) => held.message)
  const contexts = fresh.map(({ context }) => context)
  if (messages.length > 0) await handler(tx, messages, contexts)
  return stale
}

/**
 * A guard that locks rows is asked in one order of the rows, so that two batches with the same rows do not deadlock. The messages
 * of one row, and those of a guard that names no rows, remain in their order.
 */
function inOrderOfRows(guard: Guard<unknown> | undefined, batch: readonly Handled[]): readonly Handled[] {
  const rowOf = guard?.rowOf
  if (rowOf === undefined) return batch
  const rows = new Map(batch.map((one) => [one, rowOf(one.held.message)]))
  return batch.toSorted((one, other) => compare(rows.get(one)!, rows.get(other)!))
}

/** By UTF-16 code units: the order is the same in every process. */
function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
