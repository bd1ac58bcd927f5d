/** A bounded number of requests at a time, in the order in which they asked. */
export class Slots {
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(limit: number) {
    this.#free = limit
  }

  /** Whether nothing holds or waits for a slot. */
  isIdle(limit: number): boolean {
    return this.#free === limit
  }

  /** Waits for a slot, which `release` returns. @throws the signal's reason when the signal is aborted first. */
  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return
    }
    await new Promise<void>((resolve, reject) => {
      const taken = (): void => {
        signal.removeEventListener('abort', abort)
        resolve()
      }
      const abort = (): void => {
        this.#waiting.delete(taken)
        reject(signal.reason as Error)
      }
      this.#waiting.add(taken)
      signal.addEventListener('abort', abort, { once: true })
    })
  }

  release(): void {
    const [next] = this.#waiting
    if (next === undefined) {
      this.#free += 1
      return
    }
    this.#waiting.delete(next)
    next()
  }
}

/** The slots of all requests together, and of each host. */
export class HostSlots {
  readonly #all: Slots
  readonly #perHost: number
  readonly #hosts = new Map<string, Slots>()

  constructor(concurrency: number, perHost: number) {
    this.#all = new Slots(concurrency)
    this.#perHost = perHost
  }

  /** Runs `work` when there is a slot. */
  async run<T>(host: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const slots = this.#hosts.get(host) ?? new Slots(this.#perHost)
    this.#hosts.set(host, slots)
    try {
      // A host that waits for itself must not occupy a slot of the others.
      await slots.acquire(signal)
      try {
        await this.#all.acquire(signal)
        try {
          return await work()
        } finally {
          this.#all.release()
        }
      } finally {
        slots.release()
      }
    } finally {
      if (slots.isIdle(this.#perHost)) this.#hosts.delete(host)
    }
  }
}
