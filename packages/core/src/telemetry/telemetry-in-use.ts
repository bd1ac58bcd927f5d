import type { FindTelemetry } from './telemetry-option.ts'
import type { Telemetry } from './telemetry.ts'

/** A telemetry that is registered later is noticed within this time. */
const LOOK_EVERY_MS = 1000

const looks = new Set<() => void>()
let timer: NodeJS.Timeout | undefined

/**
 * Calls `begin` with the telemetry in use, and with another one when that is registered in its place, until the returned function is
 * called.
 *
 * @param begin returns a function that ends what it has begun.
 */
export function whileInUse(find: FindTelemetry, begin: (telemetry: Telemetry) => () => void): () => void {
  let current: Telemetry | undefined
  let end: (() => void) | undefined
  const look = (): void => {
    const found = find()
    if (found === current) return
    end?.()
    current = found
    end = found === undefined ? undefined : begin(found)
  }
  look()
  looks.add(look)
  // One look at a property of globalThis for each part that runs.
  timer ??= setInterval(() => looks.forEach((each) => each()), LOOK_EVERY_MS).unref()
  return () => {
    if (!looks.delete(look)) return
    end?.()
    if (looks.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}
