import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/** A point in time with microseconds, as text in the formats of both dialects. */
export interface Instant {
  /** `2026-01-31T23:59:59.123456Z` */
  readonly iso: string
  /** `2026-01-31 23:59:59.123456`, in UTC */
  readonly utc: string
  /** The number of decimals of the second, without trailing zeros. */
  readonly decimals: number
}

const RFC_3339 =
  /^(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d+))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/

/**
 * Reads an instant from a `Date`, or from an RFC 3339 string, which keeps microseconds.
 *
 * @throws {InvalidOptionError} when `at` is not an instant of the years 1 to 9999, or is finer than a microsecond:
 *   truncating it could make two instants equal.
 */
export function instantOf(where: string, name: string, at: unknown): Instant {
  const text = isDate(at) && !Number.isNaN(at.getTime()) ? at.toISOString() : at
  const [, day, time, fraction = '', offset] = (typeof text === 'string' && RFC_3339.exec(text)) || []
  const decimals = fraction.replace(/0+$/, '')
  const seconds = toUtc(day, time, offset)
  if (seconds === undefined || decimals.length > 6) {
    throw new InvalidOptionError(
      `${where}: '${name}' must be a Date, or an RFC 3339 string such as '2026-01-31T23:59:59.123456Z' with at most six decimals, ` +
        `not ${isDate(at) ? 'an invalid Date' : nameOf(at)}.`,
    )
  }
  const utc = `${seconds.replace('T', ' ')}.${decimals.padEnd(6, '0')}`
  return { iso: `${utc.replace(' ', 'T')}Z`, utc, decimals: decimals.length }
}

/** Converts to UTC, in whole seconds. @returns `undefined` for a day or a time that does not exist. */
function toUtc(
  day: string | undefined,
  time: string | undefined,
  offset: string | undefined,
): string | undefined {
  if (day === undefined || time === undefined || offset === undefined) return undefined
  const local = new Date(`${day}T${time}Z`)
  // `new Date` would silently turn 31 February into 3 March.
  if (Number.isNaN(local.getTime()) || local.toISOString().slice(0, 19) !== `${day}T${time}`) return undefined
  const utc = new Date(`${day}T${time}${offset.toUpperCase()}`).toISOString().slice(0, 19)
  return /^\d{4}-/.test(utc) && !utc.startsWith('0000') ? utc : undefined
}

/**
 * Returns whether the value is a real Date, even of another realm. An object that only has the prototype of a Date is
 * not one.
 */
export function isDate(value: unknown): value is Date {
  return Object.prototype.toString.call(value) === '[object Date]'
}
