import { readableDuration } from '@txbox/core/internal'
import { malformed } from './hmac.ts'
import { InvalidSignatureError } from './invalid-signature-error.ts'

/** Seconds since 1970 in decimal digits; more would be beyond the last Date. */
const SECONDS = /^\d{1,12}$/

/**
 * Reads the time at which a webhook was signed. A captured webhook must not be accepted forever.
 *
 * @throws {InvalidSignatureError} when the text is no time in seconds, or further from now than the tolerance.
 */
export function signedTime(header: string, text: string, toleranceMs: number): Date {
  if (!SECONDS.test(text)) throw malformed(header, 'a timestamp of whole seconds since 1970')
  const signedMs = Number(text) * 1000
  // Whole seconds, because the timestamp has no fraction.
  const ageMs = Math.floor(Date.now() / 1000) * 1000 - signedMs
  if (Math.abs(ageMs) <= toleranceMs) return new Date(signedMs)
  const age = readableDuration(Math.abs(ageMs))
  throw new InvalidSignatureError(
    `The webhook was signed ${age} ${ageMs > 0 ? 'ago' : 'ahead of this clock'}, by its header '${header}'; 'toleranceMs' is ${toleranceMs}. ` +
      'Check the clock of this machine. An old webhook may be a copy that an attacker sends again.',
  )
}
