import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'

/**
 * A version, which is a whole number. Versions up to 2^53 − 1 can be a `number`. All versions can be a `bigint`, or a
 * string of digits, which is how drivers return a BIGINT.
 */
export type Version = number | bigint | string

/** Widens a literal version type: `number` for the literal type `3`. */
export type SameKind<V extends Version> = V extends number ? number : V extends bigint ? bigint : string

/** The range of a BIGINT, signed or unsigned. */
export const MIN_VERSION = -(2n ** 63n)
const MAX_VERSION = 2n ** 64n - 1n

/** @throws {InvalidOptionError} when `version` is not a whole number, or is a `number` beyond 2^53 − 1. */
export function exactVersion(where: string, name: string, version: unknown): bigint {
  if (typeof version === 'number' && Number.isSafeInteger(version)) return BigInt(version)
  const exact =
    typeof version === 'bigint' || (typeof version === 'string' && /^-?\d{1,20}$/.test(version))
      ? BigInt(version)
      : undefined
  if (exact === undefined || exact < MIN_VERSION || exact > MAX_VERSION) {
    throw new InvalidOptionError(
      `${where}: '${name}' must be a version: a whole number of 64 bits as a bigint, as a string of digits, or as a number up ` +
        `to 2^53 − 1, not ${nameOf(version)}.`,
    )
  }
  return exact
}

/**
 * @throws {InvalidOptionError} when no column can hold the next version: without strict mode, MySQL and MariaDB would
 *   store another one.
 */
export function nextVersion(where: string, version: bigint): bigint {
  if (version < MAX_VERSION) return version + 1n
  throw new InvalidOptionError(
    `${where}: there is no version after ${version}, the greatest whole number of 64 bits. Nothing was written.`,
  )
}

/**
 * Converts a version to the type that the caller uses.
 *
 * @throws {InvalidOptionError} when that type is `number` and the version would be rounded.
 */
export function asKindOf<V extends Version>(where: string, sample: V, version: bigint): SameKind<V> {
  if (typeof sample === 'bigint') return version as SameKind<V>
  if (typeof sample === 'string') return String(version) as SameKind<V>
  const number = Number(version)
  if (!Number.isSafeInteger(number)) {
    throw new InvalidOptionError(
      `${where}: the version ${version} would be rounded as a number. Pass versions as bigint or as strings.`,
    )
  }
  return number as SameKind<V>
}
