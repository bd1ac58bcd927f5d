import { pause } from '../time/pause.ts'

/** The minimum time between two polls that notifications trigger: one poll sees all messages that arrive in between. */
const NOTIFIED_POLL_MS = 2
/**
 * Under a steady load the poller waits longer before a poll, so that more messages share one poll, one read and one
 * settlement. Up to 200 messages per second the poller does not wait, so that latency stays the same; beyond 1000 per
 * second the wait shrinks, because the same number of messages arrives in a shorter time. Measured: a third of the
 * queries at 1000 messages per second.
 */
const GATHER = { fromRate: 200, atRate: 1000, ms: 95 } as const

/**
 * How long the poller waits before the next poll: a short time while there are messages, and longer and longer when
 * there are none.
 */
export class PollPace {
  #min: number
  #max: number
  #ms: number
  /** Ends the wait in progress; each wait that ended early is followed by another controller. */
  #woken = new AbortController()
  #lookedAt = -Infinity
  #newsAt = -Infinity
  #stopped = false
  readonly #messages = new RecentCount()
  /** Notifications are counted too: they may be about messages that another process takes. */
  readonly #notifications = new RecentCount()

  constructor({ min, max }: { readonly min: number; readonly max: number }) {
    this.#min = min
    this.#max = max
    this.#ms = min
  }

  /** Changes the shortest and the longest wait. */
  between({ min, max }: { readonly min: number; readonly max: number }): void {
    this.#min = min
    this.#max = max
    this.#ms = Math.min(max, Math.max(min, this.#ms))
  }

  /** Must be called when messages have been published: more may come soon. */
  moved(count: number): void {
    this.#ms = this.#min
    this.#messages.add(count)
  }

  /** Must be called when a poll failed: the next poll follows after the shortest wait. */
  hurry(): void {
    this.#ms = this.#min
  }

  /** Must be called when nothing was published since the last poll. */
  slacken(): void {
    this.#ms = Math.min(this.#max, this.#ms * 1.5)
  }

  /** Must be called when the database notifies of new messages. */
  news(): void {
    this.#newsAt = performance.now()
    this.#notifications.add(1)
    this.wake()
  }

  /** Ends the wait early. Any number of calls during a poll cause one more poll. */
  wake(): void {
    this.#woken.abort()
  }

  wakeIfNewsSince(startedAt: number): void {
    if (this.#newsAt >= startedAt) this.wake()
  }

  stop(): void {
    this.#stopped = true
    this.#woken.abort()
  }

  async wait(): Promise<void> {
    const { signal } = this.#woken
    const gatherMs = this.#gatherMs()
    await pause(Math.max(this.#ms, gatherMs), signal)
    if (this.#stopped) return
    if (signal.aborted) {
      // The first notification after a quiet time does not wait; a stream of notifications is gathered.
      const earlyMs = this.#lookedAt + Math.max(NOTIFIED_POLL_MS, gatherMs) - performance.now()
      if (earlyMs > 0) await pause(Math.ceil(earlyMs))
      // Reset only now: the following poll sees all messages that have arrived meanwhile.
      this.#woken = new AbortController()
    }
    this.#lookedAt = performance.now()
  }

  /** Whether messages arrive so steadily that polls are further apart. */
  get isGathering(): boolean {
    return this.#gatherMs() > 0
  }

  #gatherMs(): number {
    const rate = Math.max(this.#messages.now, this.#notifications.now)
    if (rate > GATHER.atRate) return (GATHER.ms * GATHER.atRate) / rate
    return GATHER.ms * Math.max(0, (rate - GATHER.fromRate) / (GATHER.atRate - GATHER.fromRate))
  }
}

/** Counts what has happened in about the last second. What has happened counts less the longer ago that was. */
class RecentCount {
  #count = 0
  #countedAt = performance.now()

  get now(): number {
    const now = performance.now()
    this.#count *= Math.exp((this.#countedAt - now) / 1000)
    this.#countedAt = now
    return this.#count
  }

  add(count: number): void {
    this.#count = this.now + count
  }
}
