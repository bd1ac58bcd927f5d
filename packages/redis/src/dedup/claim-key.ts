import { hash } from 'node:crypto'
import { LIMITS } from '@txbox/core'
import { inboxKey } from '@txbox/core/internal'

const HASHED = 'sha256:'

/**
 * Returns the key in Redis of a message of a consumer. With one prefix, two keys are equal exactly if consumer and key are
 * equal (except for a collision of SHA-256).
 *
 * @throws {InvalidMessageError} for a key that is empty, not text, or not well-formed Unicode.
 */
export function claimKey(prefix: string, consumer: string, key: string): string {
  // The key of an inbox may be a list, but the key of a dedup store may not.
  inboxKey(typeof key === 'string' ? key : undefined, consumer)
  const isPlain = !key.startsWith(HASHED) && Buffer.byteLength(key) <= LIMITS.storedKeyBytes
  const stored = isPlain ? key : HASHED + hash('sha256', key)
  // The colon ends the name of the consumer, so the name itself must not have one.
  const name = consumer.replaceAll('%', '%25').replaceAll(':', '%3A')
  return `${prefix}${name}:${stored}`
}
