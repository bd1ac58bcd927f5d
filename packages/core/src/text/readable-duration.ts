import { readableNumber } from './readable-number.ts'

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const

/** Formats a duration for people, rounded to two units: `3 d 4 h`, `20 s`, `15 ms`. */
export function readableDuration(ms: number): string {
  for (const [index, [unitMs, unit]] of UNITS.entries()) {
    if (ms < unitMs) continue
    const next = UNITS[index + 1]
    const rest = next === undefined ? 0 : Math.floor((ms % unitMs) / next[0])
    return `${readableNumber(Math.floor(ms / unitMs))} ${unit}${rest > 0 ? ` ${rest} ${next![1]}` : ''}`
  }
  return `${Math.round(ms)} ms`
}
