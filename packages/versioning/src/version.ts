import { InvalidOptionError, nameOf } from '@txbox/core'

/**
 * A version: a whole number. As a `number` up to 2^53 − 1; beyond that as a `bigint`, or as text of digits, which is
 * what drivers make of a BIGINT.
 */
export type Version = number | bigint | string

/** The same kind out as went in, not the literal: `3` → `number`. */
export type SameKind<V extends Version> = V extends number ? number : V extends bigint ? bigint : string

/** What a BIGINT can hold, signed or unsigned. */
const LEAST = -(2n ** 63n)
const MOST = 2n ** 64n - 1n

/**
 * The exact value of a version that a caller passed.
 *
 * @throws {InvalidOptionError} when it is no whole number, or a `number` that is no longer exact.
 */
export function exactVersion(where: string, name: string, version: unknown): bigint {
  if (typeof version === 'number' && Number.isSafeInteger(version)) return BigInt(version)
  const exact =
    typeof version === 'bigint' || (typeof version === 'string' && /^-?\d{1,20}$/.test(version))
      ? BigInt(version)
      : undefined
  if (exact === undefined || exact < LEAST || exact > MOST) {
    throw new InvalidOptionError(
      `${where}: '${name}' must be a version: a whole number of 64 bits as a bigint, as text of digits, or as a number up to ` +
        `2^53 − 1, not ${nameOf(version)}.`,
    )
  }
  return exact
}

/**
 * A version as the kind that the caller uses.
 *
 * @throws {InvalidOptionError} when that is `number`, and it would be rounded.
 */
export function asKindOf<V extends Version>(where: string, sample: V, version: bigint): SameKind<V> {
  if (typeof sample === 'bigint') return version as SameKind<V>
  if (typeof sample === 'string') return String(version) as SameKind<V>
  const number = Number(version)
  if (!Number.isSafeInteger(number)) {
    throw new InvalidOptionError(
      `${where}: version ${version} would be rounded as a number. Pass versions as bigint or as text.`,
    )
  }
  return number as SameKind<V>
}
