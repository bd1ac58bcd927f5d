import { InvalidMessageError, InvalidOptionError } from '../errors/errors.ts'
import { nameOf } from '../text/name-of.ts'
import { LIMITS } from './limits.ts'
import type { OptionChecker } from './options.ts'

/** The bounds of dedup stores: how long a delivery excludes others, and how long a mark is kept. */
export const DEDUP_BOUNDS = {
  leaseMs: { min: 1000, max: 3_600_000 },
  retentionMs: { min: 1000, max: LIMITS.durationMs },
} as const

/** The settings that all dedup stores have. */
export interface DedupSettings {
  readonly retentionMs: number
  readonly leaseMs: number
  readonly onUnavailable: 'fail' | 'process'
}

/** @throws {InvalidOptionError} for a wrong option. */
export function dedupSettings(check: OptionChecker): DedupSettings {
  return {
    ...dedupTimes(check, { retentionMs: 86_400_000, leaseMs: 30_000 }),
    onUnavailable: check.oneOf('onUnavailable', ['fail', 'process'], 'fail'),
  }
}

/**
 * Reads the times that were given to a store or to a call of its methods.
 *
 * @throws {InvalidOptionError} for a time out of bounds.
 */
export function dedupTimes(
  check: OptionChecker,
  defaults: Pick<DedupSettings, 'retentionMs' | 'leaseMs'>,
): Pick<DedupSettings, 'retentionMs' | 'leaseMs'> {
  return {
    retentionMs: check.milliseconds('retentionMs', {
      ...DEDUP_BOUNDS.retentionMs,
      default: defaults.retentionMs,
    }),
    leaseMs: check.milliseconds('leaseMs', { ...DEDUP_BOUNDS.leaseMs, default: defaults.leaseMs }),
  }
}

/** The longest answer of a dedup store to `in-flight`, because the owner may finish long before its lease ends. */
export const DEDUP_RETRY_MS = 1000

/** A UUID. */
const OWNER_CHARACTERS = 36

/**
 * Splits the token of a dedup store into the owner's random name and the claim that the store has put behind it.
 *
 * @throws {InvalidOptionError} when the value cannot be a token.
 */
export function dedupTokenOf(
  where: string,
  token: unknown,
): { readonly owner: string; readonly claim: string } {
  if (typeof token !== 'string' || token.length <= OWNER_CHARACTERS) {
    throw new InvalidOptionError(`${where}: expected a token of begin, not ${nameOf(token)}.`)
  }
  return { owner: token.slice(0, OWNER_CHARACTERS), claim: token.slice(OWNER_CHARACTERS) }
}

/** @throws {InvalidMessageError} when a result given to `complete` cannot be stored. */
export function checkDedupResult(result: unknown): asserts result is string | undefined {
  if (result === undefined) return
  const fits =
    typeof result === 'string' &&
    result !== '' &&
    result.isWellFormed() &&
    Buffer.byteLength(result) <= LIMITS.resultBytes
  if (fits) return
  throw new InvalidMessageError(
    `complete: the result must be well-formed text of 1 to ${LIMITS.resultBytes} bytes, not ${nameOf(result)}. Nothing was written.`,
  )
}
