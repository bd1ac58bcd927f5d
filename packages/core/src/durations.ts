/** Hours in milliseconds, for options that end in `Ms`. */
export function hours(n: number): number {
  return n * 3_600_000
}

/** Days of 24 hours in milliseconds, for options that end in `Ms`. */
export function days(n: number): number {
  return n * 86_400_000
}
