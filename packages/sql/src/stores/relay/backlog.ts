import type { ReadLimits } from '@txbox/core/ports'

/**
 * Between these two days, microseconds since 1970 are exact numbers. Only a row that was edited by hand can have a time
 * outside of this range.
 */
export const STAMP_BOUNDS = ['1700-01-01', '2200-01-01'] as const

/** The two days as microseconds since 1970. */
export const [LEAST_STAMP, GREATEST_STAMP] = STAMP_BOUNDS.map((day) => Date.parse(day) * 1000) as [
  number,
  number,
]

/** Clamps microseconds since 1970 to the range in which a number is exact. */
export function toStamp(microseconds: number): number {
  return Math.min(Math.max(microseconds, LEAST_STAMP), GREATEST_STAMP)
}

/** Returns the maximum size of a single payload with which all payloads together stay within `limits.bytes`. */
export function inlineBytes(limits: ReadLimits): number {
  return Math.floor(limits.bytes / limits.messages)
}

/** Returns the first elements that fit into `bytes`, and at least one. */
export function withinBytes<T>(
  list: readonly T[],
  bytes: number,
  bytesOf: (element: T) => number,
): readonly T[] {
  let total = 0
  const end = list.findIndex((element, index) => (total += bytesOf(element)) > bytes && index > 0)
  return end === -1 ? list : list.slice(0, end)
}

/** Returns, of each key, only the messages before the first one that has to wait longer. */
export function withoutLater<T>(
  list: readonly T[],
  keyOf: (element: T) => unknown,
  waits: (element: T) => boolean,
): readonly T[] {
  const stopped = new Set<unknown>()
  return list.filter((element) => {
    if (waits(element)) stopped.add(keyOf(element))
    return !stopped.has(keyOf(element))
  })
}
