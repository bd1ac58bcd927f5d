/** Failures of two messages within this time have one reason. */
const ALIKE_MS = 10_000

/**
 * Tells an outage of the one endpoint from a message that the endpoint cannot take: an outage concerns other messages, too, or a
 * probe. A message that makes the endpoint fail, alone in its call, must not stop the relay.
 */
export class OneEndpoint {
  readonly #probe: (signal: AbortSignal) => Promise<boolean>
  #last: { readonly id: string; readonly at: number } | undefined

  /** @param probe whether the endpoint answers a request that has nothing to do with a message. */
  constructor(probe: (signal: AbortSignal) => Promise<boolean>) {
    this.#probe = probe
  }

  /** Must be called when a message was accepted. */
  accepted(): void {
    this.#last = undefined
  }

  /** Whether the endpoint is away, after it did not answer for this message, or answered that it is away. */
  async isAway(id: string, signal: AbortSignal): Promise<boolean> {
    const last = this.#last
    this.#last = { id, at: performance.now() }
    if (last !== undefined && last.id !== id && performance.now() - last.at < ALIKE_MS) return true
    return !(await this.#probe(signal))
  }
}
