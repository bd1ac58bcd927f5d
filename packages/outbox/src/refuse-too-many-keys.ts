import { InvalidMessageError, LIMITS } from '@txbox/core'
import type { MessageToStore } from '@txbox/core/ports'

/** @throws {InvalidMessageError} when one call would lock more ordering keys than {@link LIMITS} allows. */
export function refuseTooManyKeys(messages: readonly MessageToStore[]): void {
  const ordered = messages.filter(({ key, deliverAt }) => key !== undefined && deliverAt === undefined)
  const keys = new Set(ordered.map(({ key }) => key)).size
  if (keys <= LIMITS.lockedKeys) return
  throw new InvalidMessageError(
    `publish: ${keys} distinct keys are too many for one call with lockKeys; at most ${LIMITS.lockedKeys} are allowed. ` +
      'Publish the messages in several transactions. Nothing was written.',
  )
}
