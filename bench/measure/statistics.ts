/** The summary of several rounds. One slow round changes the spread and not the median. */
export interface Summary {
  readonly median: number
  readonly min: number
  readonly max: number
}

export function summarise(samples: readonly number[]): Summary {
  return { median: percentile(samples, 50), min: Math.min(...samples), max: Math.max(...samples) }
}

/** Interpolates linearly between the two nearest samples. */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = samples.toSorted((a, b) => a - b)
  const place = (percent / 100) * (sorted.length - 1)
  const below = sorted[Math.floor(place)] ?? Number.NaN
  const above = sorted[Math.ceil(place)] ?? Number.NaN
  const share = place - Math.floor(place)
  // A sample may be Infinity, and Infinity - Infinity is NaN.
  return share === 0 || below === above ? below : below + (above - below) * share
}

/** Divides round by round, and then summarizes: a disturbance of the machine affects both sides of a round. */
export function ratioOf(numerator: readonly number[], denominator: readonly number[]): Summary {
  return summarise(numerator.map((value, round) => value / denominator[round]!))
}
