/** The longest delay of a timer of Node.js; a longer one would end at once. */
export const LONGEST_TIMER_MS = 2_147_483_647

/** Converts hours to milliseconds, for options that end in `Ms`. */
export function hours(n: number): number {
  return n * 3_600_000
}

/** Converts days of 24 hours to milliseconds, for options that end in `Ms`. */
export function days(n: number): number {
  return n * 86_400_000
}
