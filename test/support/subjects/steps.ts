/** The payload of a message of `steps`. */
export interface Step {
  readonly key: string
  readonly n: number
}

/** Steps of several keys in turn, each key numbered from `from`. */
export function steps(topic: string, keys: number, each: number, from = 1) {
  return Array.from({ length: keys * each }, (_, index) => {
    const key = `key ${index % keys}`
    return { topic, key, payload: { key, n: Math.floor(index / keys) + from } satisfies Step }
  })
}

/** The numbers of each key as a consumer sees them that drops duplicates. */
export function numbersByKey(
  stored: readonly { readonly id: string; readonly step: Step }[],
): Record<string, number[]> {
  const seen = new Set<string>()
  const numbers: Record<string, number[]> = {}
  for (const { id, step } of stored) {
    if (seen.has(id)) continue
    seen.add(id)
    const own = (numbers[step.key] ??= [])
    own.push(step.n)
  }
  return numbers
}

/** The result of `numbersByKey` if nothing is missing or out of order. */
export function allNumbers(keys: number, each: number): Record<string, number[]> {
  const ascending = Array.from({ length: each }, (_, n) => n + 1)
  return Object.fromEntries(Array.from({ length: keys }, (_, key) => [`key ${key}`, ascending]))
}
