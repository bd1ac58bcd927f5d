/** A bounded number of requests at a time, in the order in which they asked. */
export class Slots {
  readonly #limit: number
  #free: number
  readonly #waiting = new Set<() => void>()

  constructor(limit: number) {
    this.#limit = limit
    this.#free = limit
  }

  /** Whether nothing holds a slot. Then nothing waits for one either, because a slot that is released goes to who waits. */
  get isIdle(): boolean {
    return this.#free === this.#limit
  }

  /**
   * Waits for a slot, which `release` returns.
   *
   * @param waitMs how long to wait at most, in milliseconds. @default without limit
   * @returns `false` when there was no slot in this time.
   * @throws the signal's reason when the signal is aborted first.
   */
  async acquire(signal: AbortSignal, waitMs = Infinity): Promise<boolean> {
    signal.throwIfAborted()
    if (this.#free > 0) {
      this.#free -= 1
      return true
    }
    return await new Promise<boolean>((resolve, reject) => {
      const end = (): void => {
        this.#waiting.delete(taken)
        signal.removeEventListener('abort', abort)
        clearTimeout(timer)
      }
      const taken = (): void => {
        end()
        resolve(true)
      }
      const late = (): void => {
        end()
        resolve(false)
      }
      const abort = (): void => {
        end()
        reject(signal.reason as Error)
      }
      const timer = waitMs === Infinity ? undefined : setTimeout(late, waitMs)
      this.#waiting.add(taken)
      signal.addEventListener('abort', abort, { once: true })
    })
  }

  release(): void {
    const [next] = this.#waiting
    if (next === undefined) this.#free += 1
    else next()
  }
}

/** The slots of all requests together, and of each host. */
export class HostSlots {
  readonly #all: Slots
  readonly #perHost: number
  readonly #waitMs: number
  readonly #hosts = new Map<string, Slots>()

  /** @param limits `waitMs`: how long a request may wait for a slot of its host, in milliseconds; `Infinity`: without limit. */
  constructor({ concurrency, perHost, waitMs }: { concurrency: number; perHost: number; waitMs: number }) {
    this.#all = new Slots(concurrency)
    this.#perHost = perHost
    this.#waitMs = waitMs
  }

  /** Runs `work` when there is a slot. @returns `'busy'` when its host had no slot in time: `work` was not begun. */
  async run<T>(host: string, signal: AbortSignal, work: () => Promise<T>): Promise<T | 'busy'> {
    const slots = this.#hosts.get(host) ?? new Slots(this.#perHost)
    this.#hosts.set(host, slots)
    try {
      // A host that waits for itself must not occupy a slot of the others.
      if (!(await slots.acquire(signal, this.#waitMs))) return 'busy'
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
      if (slots.isIdle) this.#hosts.delete(host)
    }
  }
}
