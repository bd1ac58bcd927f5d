/** Calls `beat` every third of the lease time until `stop` is called. At most one call is in flight. */
export class Heartbeat {
  readonly #beat: () => Promise<unknown>
  readonly #failed: (error: unknown) => void
  readonly #timer: NodeJS.Timeout
  #isBeating = false
  /** Whether the lease needs no extension at the moment. */
  isPaused = false

  constructor(leaseMs: number, beat: () => Promise<unknown>, failed: (error: unknown) => void) {
    this.#beat = beat
    this.#failed = failed
    this.#timer = setInterval(() => void this.#run(), Math.max(1, leaseMs / 3))
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #run(): Promise<void> {
    if (this.#isBeating || this.isPaused) return
    this.#isBeating = true
    try {
      await this.#beat()
    } catch (error) {
      this.#failed(error)
    }
    this.#isBeating = false
  }
}
