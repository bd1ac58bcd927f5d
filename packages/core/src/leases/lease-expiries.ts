import { LONGEST_TIMER_MS } from '../time/durations.ts'

/** Reports the deliveries whose lease has ended as lost. One timer serves all deliveries, and fires when the earliest lease ends. */
export class LeaseExpiries<D extends { readonly expiresAt: number }> {
  readonly #deliveries: () => Iterable<D>
  readonly #lose: (delivery: D) => void
  #timer: NodeJS.Timeout | undefined
  /** When the timer is due. */
  #nextAt = Infinity
  #hasStopped = false

  /**
   * @param deliveries returns the deliveries that are not settled. Each knows as `expiresAt` when its lease ends, as
   *   `performance.now()` counts.
   * @param lose is called with each delivery whose lease has ended.
   */
  constructor(deliveries: () => Iterable<D>, lose: (delivery: D) => void) {
    this.#deliveries = deliveries
    this.#lose = lose
  }

  /** Must be called when the lease of a delivery begins, or was extended. */
  expireAt(at: number): void {
    if (at >= this.#nextAt || this.#hasStopped) return
    this.#nextAt = at
    clearTimeout(this.#timer)
    const leftMs = Math.min(Math.max(0, at - performance.now()), LONGEST_TIMER_MS)
    this.#timer = setTimeout(() => this.#expire(), Math.ceil(leftMs)).unref()
  }

  /** Reports at once all deliveries whose lease has ended. The timer may be late after the process was suspended. */
  catchUp(): void {
    if (performance.now() >= this.#nextAt && !this.#hasStopped) this.#expire()
  }

  /** From now on, no delivery is reported. */
  stop(): void {
    this.#hasStopped = true
    clearTimeout(this.#timer)
  }

  #expire(): void {
    this.#nextAt = Infinity
    const now = performance.now()
    for (const delivery of this.#deliveries()) {
      if (delivery.expiresAt <= now) this.#lose(delivery)
      else this.expireAt(delivery.expiresAt)
    }
  }
}
