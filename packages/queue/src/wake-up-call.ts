import type { Sleeper, WakeUps } from '@txbox/core/ports'

/** How long the listening connection stays open after the last waiting receive: often another receive follows soon. */
const LINGER_MS = 1000

/** Ends the pauses of waiting receives early when the database notifies, or this process knows, of a visible message. */
export class WakeUpCall {
  readonly #listen: ((sleeper: Sleeper) => WakeUps) | undefined
  readonly #sleepers = new Set<() => void>()
  readonly #failed: (error: unknown) => void
  /** The number of `use` calls without a `release` yet. */
  #users = 0
  #open: WakeUps | undefined
  #closing: NodeJS.Timeout | undefined
  /**
   * Counts the notifications and the calls of `wake`. A pause compares this count with the count before the last look, so
   * that none between the two is missed.
   */
  #calls = 0

  /**
   * @param listen opens the listening connection; absent where the database cannot notify.
   * @param failed called when the listening connection fails while a receiver waits. It is replaced after a pause; until then, receivers only
   *   poll.
   */
  constructor(listen: ((sleeper: Sleeper) => WakeUps) | undefined, failed: (error: unknown) => void) {
    this.#listen = listen
    this.#failed = failed
  }

  get calls(): number {
    return this.#calls
  }

  /**
   * Lets waiting receives look again, for a message that this process has made visible. Without it, the next message of a
   * key would wait for a poll of up to half a second although its predecessor was settled here.
   */
  wake(): void {
    this.#calls += 1
    for (const wake of this.#sleepers) wake()
  }

  /** Keeps listening until `release` has been called as often as `use`. */
  use(): void {
    this.#users += 1
    clearTimeout(this.#closing)
    this.#open ??= this.#listen?.({
      woken: () => this.wake(),
      failed: (error) => {
        // Nobody misses a connection that only stays open for a receive that may follow.
        if (this.#users > 0) this.#failed(error)
      },
    })
  }

  release(): void {
    this.#users -= 1
    if (this.#users > 0 || this.#open === undefined) return
    this.#closing = setTimeout(() => {
      this.#open?.close()
      this.#open = undefined
    }, LINGER_MS)
  }

  /**
   * Resolves after `ms` milliseconds, or earlier: when the signal is aborted, or when a notification has arrived since
   * the count was `calls`.
   */
  async pause(ms: number, calls: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted === true || this.#calls !== calls) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#sleepers.add(resolve)
    const onAbort = (): void => resolve()
    signal?.addEventListener('abort', onAbort, { once: true })
    await promise
    clearTimeout(timer)
    this.#sleepers.delete(resolve)
    signal?.removeEventListener('abort', onAbort)
  }
}
