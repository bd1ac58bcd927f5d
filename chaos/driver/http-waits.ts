import { lastAnswer } from '../check/http-checks.ts'
import type { HttpLog } from './http-log.ts'
import type { Standstill } from './standstill.ts'

/**
 * How long HTTP requests have waited for their 2xx while the database and the broker were well. Requests that were made to fail do not
 * count. While a request is sent that kills its service, none counts: both services may be starting again.
 */
export class HttpWaits {
  readonly #log: HttpLog
  /** When the time of each call began to count. */
  readonly #sinceMs = new Map<string, number>()

  constructor(log: HttpLog) {
    this.#log = log
  }

  /** All clocks begin again. */
  clear(): void {
    this.#sinceMs.clear()
  }

  look(): void {
    this.#log.read()
    const { unanswered } = this.#log
    if (unanswered.some(({ ill }) => ill === 'kill')) return this.clear()
    const counted = new Set(unanswered.filter(({ ill }) => ill === undefined).map(({ call }) => call))
    for (const call of this.#sinceMs.keys()) if (!counted.has(call)) this.#sinceMs.delete(call)
    const now = performance.now()
    for (const call of counted) if (!this.#sinceMs.has(call)) this.#sinceMs.set(call, now)
  }

  standing(): readonly Standstill[] {
    const now = performance.now()
    return this.#log.unanswered.flatMap((call) => {
      const sinceMs = this.#sinceMs.get(call.call)
      if (sinceMs === undefined) return []
      const ms = now - sinceMs
      const text = `The ${call.key} has waited for its answer for ${Math.round(ms)} ms; ${lastAnswer(call)}.`
      return [{ check: 'http standstill' as const, ms, what: call.key, text }]
    })
  }
}
