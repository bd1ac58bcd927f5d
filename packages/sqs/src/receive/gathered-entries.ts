/** The most entries of one request of SQS. */
const MOST_ENTRIES = 10
const MOST_REQUESTS = 16

interface WaitingEntry<E> {
  readonly entry: E
  readonly resolve: (isValid: boolean) => void
  readonly reject: (error: unknown) => void
}

/**
 * Gathers entries into requests of at most ten. A full request is sent at once. Fewer entries are sent when no request is in flight,
 * so they wait for the requests before them at most.
 */
export class GatheredEntries<E> {
  readonly #send: (entries: readonly E[]) => Promise<readonly (boolean | Error)[]>
  readonly #waiting: WaitingEntry<E>[] = []
  #inFlight = 0
  #isScheduled = false
  #whenIdle: PromiseWithResolvers<void> | undefined

  /** @param send sends one request. @returns for each entry, whether it was valid, or why that is unknown. */
  constructor(send: (entries: readonly E[]) => Promise<readonly (boolean | Error)[]>) {
    this.#send = send
  }

  /** @returns whether the entry was valid. */
  add(entry: E): Promise<boolean> {
    const { promise, resolve, reject } = Promise.withResolvers<boolean>()
    this.#waiting.push({ entry, resolve, reject })
    if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        this.#flush()
      })
    }
    return promise
  }

  /** Waits until no entry is left. */
  async idle(): Promise<void> {
    if (this.#inFlight === 0 && this.#waiting.length === 0) return
    this.#whenIdle ??= Promise.withResolvers<void>()
    await this.#whenIdle.promise
  }

  #flush(): void {
    while (
      (this.#waiting.length >= MOST_ENTRIES && this.#inFlight < MOST_REQUESTS) ||
      (this.#waiting.length > 0 && this.#inFlight === 0)
    ) {
      this.#inFlight += 1
      void this.#run(this.#waiting.splice(0, MOST_ENTRIES))
    }
    if (this.#inFlight > 0 || this.#waiting.length > 0) return
    this.#whenIdle?.resolve()
    this.#whenIdle = undefined
  }

  async #run(together: readonly WaitingEntry<E>[]): Promise<void> {
    try {
      const answers = await this.#send(together.map(({ entry }) => entry))
      together.forEach(({ resolve, reject }, n) => {
        const answer = answers[n]
        if (answer instanceof Error) reject(answer)
        else resolve(answer === true)
      })
    } catch (error) {
      for (const { reject } of together) reject(error)
    } finally {
      this.#inFlight -= 1
      this.#flush()
    }
  }
}
