import { randomUUID } from 'node:crypto'
import { days } from '@txbox/core'
import type { DedupResult, DedupStore } from '@txbox/consumer'

type Mark =
  | { readonly state: 'leased'; readonly token: string; readonly until: number }
  | { readonly state: 'done'; readonly at: Date; readonly until: number }

/** A dedup store in memory, with leases by the clock of the process. */
export class MemoryDedupStore implements DedupStore {
  readonly calls: string[] = []
  /** The next calls fail with this error. */
  failure: unknown
  readonly #marks = new Map<string, Mark>()

  async begin({ key, leaseMs }: { key: string; leaseMs: number }): Promise<DedupResult> {
    this.#called(`begin ${key}`)
    const mark = this.#live(key)
    if (mark?.state === 'done') return { status: 'done', firstProcessedAt: mark.at }
    if (mark?.state === 'leased') return { status: 'in-flight', retryAfterMs: 500 }
    const token = randomUUID()
    this.#marks.set(key, { state: 'leased', token, until: performance.now() + leaseMs })
    return { status: 'won', token }
  }

  async complete(
    token: string,
    { retentionMs = days(1) }: { retentionMs?: number | undefined },
  ): Promise<'completed' | 'stale'> {
    this.#called('complete')
    const key = this.#keyOf(token)
    if (key === undefined) return 'stale'
    this.#marks.set(key, { state: 'done', at: new Date(), until: performance.now() + retentionMs })
    return 'completed'
  }

  async release(token: string): Promise<'released' | 'stale'> {
    this.#called('release')
    const key = this.#keyOf(token)
    if (key === undefined) return 'stale'
    this.#marks.delete(key)
    return 'released'
  }

  async extend(token: string, leaseMs: number): Promise<'extended' | 'stale'> {
    this.#called('extend')
    const key = this.#keyOf(token)
    if (key === undefined) return 'stale'
    this.#marks.set(key, { state: 'leased', token, until: performance.now() + leaseMs })
    return 'extended'
  }

  /** Marks a message as handled by another process. */
  handled(key: string): void {
    this.#marks.set(key, { state: 'done', at: new Date(), until: Infinity })
  }

  isHandled(key: string): boolean {
    return this.#live(key)?.state === 'done'
  }

  #called(call: string): void {
    this.calls.push(call)
    if (this.failure !== undefined) throw this.failure
  }

  #live(key: string): Mark | undefined {
    const mark = this.#marks.get(key)
    return mark !== undefined && mark.until > performance.now() ? mark : undefined
  }

  #keyOf(token: string): string | undefined {
    return [...this.#marks.keys()].find((key) => {
      const mark = this.#live(key)
      return mark?.state === 'leased' && mark.token === token
    })
  }
}
