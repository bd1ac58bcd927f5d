import { hash } from 'node:crypto'

/**
 * Returns the numbers of the locks that `publish` takes with `lockKeys`: one for each distinct ordering key, as a
 * signed number of 64 bits, in no particular order. Messages without a key and scheduled messages have no order, and
 * need no lock.
 *
 * The relay orders by the key alone, across all topics, so the key alone decides the number. Two keys with the same
 * number only wait for each other.
 *
 * @param scope the place of the outbox, where outboxes of several places share the locks of one database.
 */
export function keyLocksOf(
  messages: readonly { readonly key: string | undefined; readonly deliverAt?: Date | undefined }[],
  scope: string,
): readonly bigint[] {
  const keys = new Set<string>()
  for (const { key, deliverAt } of messages) {
    if (key !== undefined && deliverAt === undefined) keys.add(key)
  }
  return [...keys].map((key) => {
    const digest = hash('sha256', JSON.stringify(['txbox outbox key', scope, key]), 'buffer')
    return digest.readBigInt64BE()
  })
}
