/** The first pause, and what a pause is at most. */
const SHORTEST_PAUSE_MS = 70
const LONGEST_PAUSE_MS = 2000
/** A pause as a share of how long the outage has lasted: the broker is found again within half of that. */
const SHARE_OF_OUTAGE = 0.4
/** How long other shards wait for the result of the call that tries whether the outage is over. */
const PROBE_MS = 1000

/**
 * An outage of the broker: while the publisher throws, the relay pauses as a whole. When a pause ends one call goes as a
 * probe, and the others wait for its result. Calls that are in flight side by side are one failure, not many.
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

  /** A call is about to begin. @returns `false` when it has to wait; during an outage, the call becomes the probe. */
  admits(now: number): boolean {
    if (this.waitMs(now) > 0) return false
    if (this.#since !== undefined) this.#probeUntil = now + PROBE_MS
    return true
  }

  /**
   * A call that had begun at `begunAt` has thrown.
   *
   * @returns the pause that begins now, in milliseconds; `undefined` when the call had begun before the failure that is
   *   known already.
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
   * Notes who has failed. To be called before {@link failed}.
   *
   * @returns whether nobody else has failed since the same one failed last, although others have succeeded meanwhile: then
   *   the failure is its own.
   */
  isOwnFailure(of: object): boolean {
    const isOwn = this.#failedBy === of && this.#hasSucceededSince
    this.#failedBy = of
    return isOwn
  }

  /** The probe was not made: another call may be the probe at once. */
  giveBack(): void {
    this.#probeUntil = 0
  }

  /** The broker has answered a call. @returns whether an outage has ended with it. */
  succeeded(): boolean {
    this.#hasSucceededSince = true
    const ended = this.#since !== undefined
    this.#since = undefined
    return ended
  }
}
