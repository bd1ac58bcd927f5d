/** The first pause and the longest pause, in milliseconds. */
const SHORTEST_PAUSE_MS = 70
const LONGEST_PAUSE_MS = 2000
/** A pause as a share of the outage so far: the relay finds the broker again within half the length of the outage. */
const SHARE_OF_OUTAGE = 0.4
/** How long other shards wait for the result of the probe, the call that tests whether the outage is over. In ms. */
const PROBE_MS = 1000

/**
 * An outage of the broker: while the publisher throws, the whole relay pauses. When a pause ends, one call serves as a
 * probe, and the other calls wait for its result. Concurrent calls that fail count as one failure.
 */
export class PublisherOutage {
  /** When the outage began; `undefined` while there is none. */
  #since: number | undefined
  #failedAt = -Infinity
  #until = 0
  #probeUntil = 0
  #failedBy: object | undefined
  #hasSucceededSince = false

  /** How long to wait before the publisher may be called, in milliseconds; 0 when a call may begin now. */
  waitMs(now: number): number {
    return this.#since === undefined ? 0 : Math.max(0, this.#until - now, this.#probeUntil - now)
  }

  /**
   * Must be called before a call begins. During an outage, the call becomes the probe.
   *
   * @returns `false` when the call has to wait.
   */
  admits(now: number): boolean {
    if (this.waitMs(now) > 0) return false
    if (this.#since !== undefined) this.#probeUntil = now + PROBE_MS
    return true
  }

  /**
   * Must be called when a call that began at `begunAt` has thrown.
   *
   * @returns the pause that begins now, in milliseconds; `undefined` when the call began before the failure that is
   *   already known.
   */
  failed(begunAt: number, now: number, random: () => number = Math.random): number | undefined {
    this.#hasSucceededSince = false
    if (this.#since !== undefined && begunAt <= this.#failedAt) return undefined
    this.#since ??= now
    this.#failedAt = now
    const pauseMs = Math.min(LONGEST_PAUSE_MS, SHORTEST_PAUSE_MS + SHARE_OF_OUTAGE * (now - this.#since))
    // Jitter, so that relays that failed together do not probe together.
    const jitteredMs = pauseMs * (0.75 + 0.25 * random())
    this.#until = now + jitteredMs
    this.#probeUntil = 0
    return jitteredMs
  }

  /**
   * Notes the shard whose call has failed. Must be called before {@link failed}.
   *
   * @returns whether the last failure was of the same shard, and calls of other shards have succeeded since then: then this
   *   failure is the shard's own.
   */
  isOwnFailure(shard: object): boolean {
    const isOwn = this.#failedBy === shard && this.#hasSucceededSince
    this.#failedBy = shard
    return isOwn
  }

  /** Must be called when the probe was not made: another call may be the probe at once. */
  giveBack(): void {
    this.#probeUntil = 0
  }

  /** Must be called when the broker has answered a call. @returns whether that has ended an outage. */
  succeeded(): boolean {
    this.#hasSucceededSince = true
    const ended = this.#since !== undefined
    this.#since = undefined
    return ended
  }
}
