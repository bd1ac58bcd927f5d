const SHORTEST_PAUSE_MS = 70
const LONGEST_PAUSE_MS = 2000
/** A pause as a share of the outage so far: the relay finds the broker again within half the length of the outage. */
const SHARE_OF_OUTAGE = 0.4
/** How long other shards wait for the result of the probe, the call that tests whether the outage is over. */
const PROBE_MS = 1000
/** A probe that fails within this time costs little: then each other shard may be the probe once before the pause ends. */
const QUICK_PROBE_MS = 100

/**
 * An outage of the broker: while the publisher throws, the whole relay pauses. When a pause ends, one call serves as a
 * probe, and the other calls wait for its result. Concurrent calls that fail count as one failure. The shards take turns as
 * the probe, because the messages of one shard may have another destination than those of the others.
 */
export class PublisherOutage {
  /** When the outage began; `undefined` while there is none. */
  #since: number | undefined
  #failedAt = -Infinity
  #until = 0
  #probeUntil = 0
  /** The shards whose calls have failed since the last pause began. */
  readonly #tried = new Set<object>()
  #isOpenToOthers = false
  #failedBy: object | undefined
  #hasSucceededSince = false

  /** When the outage began; `undefined` while there is none. */
  get since(): number | undefined {
    return this.#since
  }

  /**
   * How long to wait before a call of this shard, or of any shard, may begin, in milliseconds; 0 when it may begin now.
   */
  waitMs(now: number, shard?: object): number {
    if (this.#since === undefined) return 0
    const mayTry = this.#isOpenToOthers && shard !== undefined && !this.#tried.has(shard)
    return Math.max(0, mayTry ? 0 : this.#until - now, this.#probeUntil - now)
  }

  /** Whether the last probe has failed quickly: each shard that was not the probe yet may be the next one at once. */
  get isOpenToOthers(): boolean {
    return this.#since !== undefined && this.#isOpenToOthers
  }

  /**
   * Must be called before a call begins. During an outage, the call becomes the probe.
   *
   * @returns `false` when the call has to wait.
   */
  admits(now: number, shard: object): boolean {
    if (this.waitMs(now, shard) > 0) return false
    if (this.#since !== undefined) this.#probeUntil = now + PROBE_MS
    return true
  }

  /**
   * Must be called when a call of the shard that began at `begunAt` has thrown.
   *
   * @returns the pause that begins now, in milliseconds; `undefined` when the pause is already known.
   */
  failed(
    shard: object,
    begunAt: number,
    now: number,
    random: () => number = Math.random,
  ): number | undefined {
    this.#hasSucceededSince = false
    const isKnown = this.#since !== undefined && begunAt <= this.#failedAt
    const isQuick = now - begunAt < QUICK_PROBE_MS
    if (isKnown || (isQuick && now < this.#until)) {
      this.#tried.add(shard)
      if (!isKnown) this.#probeUntil = 0
      return undefined
    }
    this.#since ??= now
    this.#failedAt = now
    const pauseMs = Math.min(LONGEST_PAUSE_MS, SHORTEST_PAUSE_MS + SHARE_OF_OUTAGE * (now - this.#since))
    // Jitter, so that relays that failed together do not probe together.
    const jitteredMs = pauseMs * (0.75 + 0.25 * random())
    this.#until = now + jitteredMs
    this.#probeUntil = 0
    this.#tried.clear()
    this.#tried.add(shard)
    this.#isOpenToOthers = isQuick
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
    this.#until = 0
    return ended
  }
}
