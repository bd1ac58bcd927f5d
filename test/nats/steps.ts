import type { JsMsg } from '@nats-io/jetstream'
import { idOf } from './nats-under-test.ts'

interface Step {
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
export function numbersByKey(messages: readonly JsMsg[]): Record<string, number[]> {
  const seen = new Set<string>()
  const numbers: Record<string, number[]> = {}
  for (const message of messages) {
    if (seen.has(idOf(message))) continue
    seen.add(idOf(message))
    const { key, n } = message.json<Step>()
    const own = (numbers[key] ??= [])
    own.push(n)
  }
  return numbers
}

/** What `numbersByKey` has if nothing is missing or out of order. */
export function allNumbers(keys: number, each: number): Record<string, number[]> {
  const ascending = Array.from({ length: each }, (_, n) => n + 1)
  return Object.fromEntries(Array.from({ length: keys }, (_, key) => [`key ${key}`, ascending]))
}
