import type { Publisher } from '../ports/publisher.ts'

/** The minimum time between checks of the publisher while nothing is published. */
const CHECK_EVERY_MS = 10_000
const CHECK_TIMEOUT_MS = 10_000

/** Whether a publisher accepts messages: by the last call of its relay, or by a check while the relay publishes nothing. */
export class PublisherState {
  readonly #publisher: Publisher
  readonly #failed: ((error: unknown) => void) | undefined
  #known: { readonly up: boolean; readonly at: number } | undefined
  #checking: Promise<void> | undefined
  #checkedAt = -Infinity
  #hasEnded = false

  /** @param failed is called with the error each time a check fails. */
  constructor(publisher: Publisher, failed?: (error: unknown) => void) {
    this.#publisher = publisher
    this.#failed = failed
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

  /** Must be called when the relay has stopped: the publisher is not checked any more. */
  end(): void {
    this.#hasEnded = true
  }

  /** Begins a check. A state that the relay reports during the check takes precedence over its result. */
  #check(): void {
    const publisher = this.#publisher
    if (publisher.check === undefined || this.#checking !== undefined || this.#hasEnded) return
    const startedAt = performance.now()
    this.#checkedAt = startedAt
    const found = (up: boolean): void => {
      if ((this.#known?.at ?? -Infinity) <= startedAt) this.seen(up)
    }
    const asked = async (): Promise<void> =>
      publisher.check?.({ signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })
    this.#checking = asked().then(
      () => found(true),
      (error: unknown) => {
        found(false)
        this.#failed?.(error)
      },
    )
    void this.#checking.finally(() => (this.#checking = undefined))
  }
}
