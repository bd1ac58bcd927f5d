import { PausedKeys } from '@txbox/core/internal'

/** A host that failed so often in a row is paused. */
const FAILURES = 5
/** Above this number, the counts are forgotten, because their hosts may be out of use. */
const MOST_HOSTS = 10_000

/** The hosts that cannot be reached. After five failures in a row, no message is sent to a host for 30 s, so that it costs no slots. */
export class FailingHosts {
  readonly #failures = new Map<string, number>()
  readonly #paused = new PausedKeys()

  /** Whether a message may be sent to this host now. */
  admits(host: string): boolean {
    return this.#paused.admission(host) !== 'not-now'
  }

  failed(host: string): void {
    if (this.#failures.size > MOST_HOSTS) this.#failures.clear()
    const failures = (this.#failures.get(host) ?? 0) + 1
    this.#failures.set(host, failures)
    if (failures >= FAILURES) this.#paused.pause(host)
  }

  /** Must be called when the host has answered, whatever it answered. */
  answered(host: string): void {
    this.#failures.delete(host)
    this.#paused.resume(host)
  }
}
