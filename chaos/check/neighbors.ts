import type { Committed, Effect } from './history.ts'

interface Handled<E extends Effect> {
  readonly message: Committed
  readonly effect: E
}

/** An effect and the one before it within its key and epoch. */
export interface Neighbors<E extends Effect> extends Handled<E> {
  readonly before: Handled<E>
}

/** The first effects of some of the messages, and each pair of successive effects within a key and an epoch. */
export function neighbors<E extends Effect>(
  messages: ReadonlyMap<string, Committed>,
  effects: readonly E[],
  isSought: (message: Committed) => boolean,
): { readonly looked: number; readonly pairs: readonly Neighbors<E>[] } {
  const seen = new Set<string>()
  const last = new Map<string, Handled<E>>()
  const pairs: Neighbors<E>[] = []
  let looked = 0
  for (const effect of effects) {
    const message = messages.get(effect.id)
    if (message === undefined || !isSought(message) || seen.has(effect.id)) continue
    seen.add(effect.id)
    looked += 1
    const before = last.get(chainOf(message))
    if (before !== undefined) pairs.push({ before, message, effect })
    // A message that was handled too late is not the one that later messages follow. Without places there is no order.
    if (before === undefined || message.place === undefined || before.message.place! < message.place) {
      last.set(chainOf(message), { message, effect })
    }
  }
  return { looked, pairs }
}

/** The key and the epoch of a message: places begin again after a failover. */
export function chainOf({ key, epoch }: Committed): string {
  return `${key}@${epoch}`
}
