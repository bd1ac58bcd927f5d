/** A holder of a lease. */
interface Leased {
  extend(): Promise<unknown>
  report(error: unknown): void
}

/**
 * Extends leases at a third of their time at the latest. One timer serves all leases: a timer for each message would cost more
 * than a short handler.
 */
export class Heartbeats {
  readonly #tickMs: number
  readonly #beating = new Set<Heartbeat>()
  #timer: NodeJS.Timeout | undefined

  constructor(leaseMs: number) {
    this.#tickMs = Math.max(1, leaseMs / 6)
  }

  start(leased: Leased): Heartbeat {
    const heartbeat = new Heartbeat(leased, this)
    this.#beating.add(heartbeat)
    this.#timer ??= setInterval(() => {
      for (const beating of this.#beating) void beating.tick()
    }, this.#tickMs)
    return heartbeat
  }

  stop(heartbeat: Heartbeat): void {
    this.#beating.delete(heartbeat)
    if (this.#beating.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

/** The extensions of one lease. At most one is in flight. */
export class Heartbeat {
  readonly #leased: Leased
  readonly #all: Heartbeats
  #ticks = 0
  #isExtending = false
  #isPaused = false

  constructor(leased: Leased, all: Heartbeats) {
    this.#leased = leased
    this.#all = all
  }

  /** @param isPaused whether the lease needs no extension: a transaction holds the message. */
  pause(isPaused: boolean): void {
    this.#isPaused = isPaused
  }

  stop(): void {
    this.#all.stop(this)
  }

  /** Extends the lease at every second tick: the first tick may come right after the start. */
  async tick(): Promise<void> {
    this.#ticks += 1
    if (this.#ticks % 2 === 1 || this.#isExtending || this.#isPaused) return
    this.#isExtending = true
    await this.#leased.extend().catch((error: unknown) => this.#leased.report(error))
    this.#isExtending = false
  }
}
