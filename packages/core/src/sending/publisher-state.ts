import type { Publisher } from '../ports/publisher.ts'

/** The minimum time between checks of the publisher while nothing is published. */
const CHECK_EVERY_MS = 10_000
const CHECK_TIMEOUT_MS = 10_000

/** The states of each publisher: no check of any of them may reach a publisher that is closed. */
const statesOf = new WeakMap<Publisher, Set<PublisherState>>()

/**
 * Ends all states of a publisher. Must be called before the publisher is closed. A publisher without `close` is not closed: its other
 * users may go on to check it.
 *
 * @returns a promise that resolves when no check is in flight. It never rejects.
 */
export async function endChecks(publisher: Publisher): Promise<void> {
  if (publisher.close === undefined) return
  await Promise.all([...(statesOf.get(publisher) ?? [])].map((state) => state.end()))
}

/** Whether a publisher accepts messages: by the last call of its relay, or by a check while the relay publishes nothing. */
export class PublisherState {
  readonly #publisher: Publisher
  readonly #failed: ((error: unknown) => void) | undefined
  #known: { readonly up: boolean; readonly at: number } | undefined
  #checking: Promise<void> | undefined
  #checkedAt = -Infinity
  readonly #ending = new AbortController()

  /** @param failed is called with the error each time a check fails. */
  constructor(publisher: Publisher, failed?: (error: unknown) => void) {
    this.#publisher = publisher
    this.#failed = failed
    const states = statesOf.get(publisher) ?? new Set()
    statesOf.set(publisher, states.add(this))
  }

  /** The check in progress. Never rejects. */
  get checking(): Promise<void> | undefined {
    return this.#checking
  }

  /** Must be called when a relay reports that the publisher accepts messages, or does not. */
  seen(up: boolean): void {
    this.#known = { up, at: performance.now() }
  }

  /**
   * Returns the last known state without waiting, and begins a check if that state is old. Returns `undefined` before the first check
   * has ended. A publisher without `check` counts as up before its first message.
   */
  isUp(): boolean | undefined {
    const now = performance.now()
    const isOld = this.#known === undefined || now - this.#known.at >= CHECK_EVERY_MS
    if (isOld && now - this.#checkedAt >= CHECK_EVERY_MS) this.#check()
    return this.#known?.up ?? (this.#publisher.check === undefined ? true : undefined)
  }

  /**
   * Aborts the check in flight, whose result is ignored. The publisher is not checked any more.
   *
   * @returns a promise that resolves when no check is in flight. It never rejects.
   */
  async end(): Promise<void> {
    this.#ending.abort()
    await this.#checking
    statesOf.get(this.#publisher)?.delete(this)
  }

  /** Begins a check. A state that the relay reports during the check takes precedence over its result. */
  #check(): void {
    const publisher = this.#publisher
    if (publisher.check === undefined || this.#checking !== undefined || this.#ending.signal.aborted) return
    const startedAt = performance.now()
    this.#checkedAt = startedAt
    const found = (up: boolean): void => {
      if (!this.#ending.signal.aborted && (this.#known?.at ?? -Infinity) <= startedAt) this.seen(up)
    }
    const signal = AbortSignal.any([AbortSignal.timeout(CHECK_TIMEOUT_MS), this.#ending.signal])
    const asked = async (): Promise<void> => publisher.check?.({ signal })
    this.#checking = asked().then(
      () => found(true),
      (error: unknown) => {
        if (this.#ending.signal.aborted) return
        found(false)
        this.#failed?.(error)
      },
    )
    void this.#checking.finally(() => (this.#checking = undefined))
  }
}
