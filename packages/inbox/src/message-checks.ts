import { createHash } from 'node:crypto'
import { InvalidMessageError, type AnyMessage } from '@txbox/core'
import { canonicalJson, nameOf, oneLine, type InboxKey } from '@txbox/core/internal'

/**
 * Returns the SHA-256 of a payload: of its bytes, or of its canonical JSON (RFC 8785), in which the order of members
 * makes no difference.
 */
export function contentHash({ payload }: AnyMessage): Uint8Array {
  const hash = createHash('sha256')
  if (payload instanceof Uint8Array) hash.update('bytes:').update(payload)
  else if (payload !== undefined) hash.update('json:').update(canonicalJson(payload))
  return hash.digest()
}

const RFC_3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:[Zz]|[+-]\d{2}:\d{2})$/

/**
 * Returns the time of a message, in milliseconds since 1970.
 *
 * @throws {InvalidMessageError} for a message without a valid `time`.
 */
export function sentAt({ time }: AnyMessage, key: InboxKey): number {
  const at =
    typeof time === 'string'
      ? RFC_3339.test(time)
        ? Date.parse(time.toUpperCase().replace(' ', 'T'))
        : NaN
      : Object.prototype.toString.call(time) === '[object Date]'
        ? (time as Date).getTime()
        : NaN
  if (!Number.isNaN(at)) return at
  throw new InvalidMessageError(
    `The message with the key '${oneLine(key.text)}' has no usable time, but the option 'maxAgeMs' needs one: expected a ` +
      `Date, or an RFC 3339 string such as '2026-01-31T23:59:59Z', not ${time instanceof Date ? 'an invalid Date' : nameOf(time)}. ` +
      'Nothing was written.',
  )
}
