import { createHash } from 'node:crypto'

/** A UUID as PostgreSQL writes it. */
const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/

/**
 * Returns the id of the job for a message: the id of the message if it is a UUID in lower case, and otherwise a UUID of version 8 that
 * follows from the id. The same message always has the same job, so that a resend is no second job.
 */
export function jobIdOf(messageId: string): string {
  if (UUID.test(messageId)) return messageId
  const bytes = createHash('sha256').update(messageId).digest().subarray(0, 16)
  bytes[6] = (bytes[6]! & 0x0f) | 0x80
  bytes[8] = (bytes[8]! & 0x3f) | 0x80
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
