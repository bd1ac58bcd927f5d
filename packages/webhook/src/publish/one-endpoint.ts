/** Failures of two messages within this time have one reason. */
const ALIKE_MS = 10_000
/** After failing for this long, messages that fail alike are no longer taken for an outage if the endpoint answers the probe. */
const DOUBT_MS = 60_000
/** So many messages pass in a doubtful minute, beside those that have failed for a minute themselves. In an outage, others need not be tried. */
const MOST_PASSING = 10
/** Of more messages, those that have failed for the longest time are forgotten: most were given up. */
const MOST_MESSAGES = 10_000

/**
 * Why a message failed. `'away'`: the endpoint is away. `'at-fault'`: the endpoint cannot take this message. `'undecided'`: one of both,
 * which the next message that is accepted decides.
 */
export type Fault = 'away' | 'at-fault' | 'undecided'

interface Failure {
  readonly id: string
  readonly at: number
}

/**
 * Tells an outage of the one endpoint from a message that the endpoint cannot take: an outage concerns other messages, too, or a
 * probe. Messages that make the endpoint fail must not stop the relay: one that is alone in its call at once, and several that fail alike
 * after a minute. Then they let others pass: if one of those is accepted, the endpoint is there.
 */
export class OneEndpoint {
  readonly #probe: (signal: AbortSignal) => Promise<boolean>
  readonly #now: () => number
  /** When each message failed first, by its id; the messages that have failed for the longest time first. */
  readonly #failingSince = new Map<string, number>()
  /** The last failure, and the last one of another message before it. */
  #last: Failure | undefined
  #lastOfOther: Failure | undefined
  /** When the failures began, without a minute between two of them, and how many messages have passed since these are in doubt. */
  #alikeSince = 0
  #passing = 0
  #acceptedAt = -Infinity

  /**
   * @param probe whether the endpoint answers a request that has nothing to do with a message.
   * @param now a monotonic clock, in milliseconds.
   */
  constructor(probe: (signal: AbortSignal) => Promise<boolean>, now = () => performance.now()) {
    this.#probe = probe
    this.#now = now
  }

  /** Must be called when the endpoint has answered, and not that it is away. */
  answered(id: string, isAccepted: boolean): void {
    this.#failingSince.delete(id)
    if (!isAccepted) return
    this.#last = undefined
    this.#lastOfOther = undefined
    this.#acceptedAt = this.#now()
  }

  /** Must be called when the endpoint did not answer for this message, or answered that it is away. */
  async failed(id: string, signal: AbortSignal): Promise<Fault> {
    const now = this.#now()
    const since = this.#since(id, now)
    // A message that failed before another one was accepted says nothing about the endpoint.
    if (since >= this.#acceptedAt) this.#note({ id, at: now })
    if (this.#hasAlike(id) && !this.#mayPass(since, now)) return 'away'
    if (!(await this.#probe(signal))) return 'away'
    // Another message of the call may have failed meanwhile.
    return this.#hasAlike(id) && this.#acceptedAt <= since ? 'undecided' : 'at-fault'
  }

  /** Whether another message has failed a short time ago, and none was accepted since. */
  #hasAlike(id: string): boolean {
    const other = this.#last?.id === id ? this.#lastOfOther : this.#last
    return other !== undefined && this.#now() - other.at < ALIKE_MS
  }

  #note(failure: Failure): void {
    if (this.#last === undefined || failure.at - this.#last.at >= DOUBT_MS) this.#doubtAgain(failure.at)
    if (this.#last?.id !== failure.id) this.#lastOfOther = this.#last
    this.#last = failure
  }

  /** Whether a message that fails alike may be at fault by itself. */
  #mayPass(since: number, now: number): boolean {
    if (now - since >= DOUBT_MS) return true
    if (now - this.#alikeSince < DOUBT_MS) return false
    this.#passing += 1
    if (this.#passing <= MOST_PASSING) return true
    this.#doubtAgain(now)
    return false
  }

  #doubtAgain(now: number): void {
    this.#alikeSince = now
    this.#passing = 0
  }

  #since(id: string, now: number): number {
    const known = this.#failingSince.get(id)
    if (known !== undefined) return known
    this.#failingSince.set(id, now)
    if (this.#failingSince.size > MOST_MESSAGES) {
      const [oldest] = this.#failingSince.keys()
      this.#failingSince.delete(oldest!)
    }
    return now
  }
}
