import type { Standing } from './stream-group.ts'

interface Waiting {
  readonly id: string
  readonly resolve: (standing: Standing) => void
  readonly reject: (error: unknown) => void
}

/**
 * Gathers the ids of one turn of the event loop, and those that come while a command is in flight, into one command: otherwise the
 * next messages of their keys would be accepted by small commands beside large ones.
 */
export class GatheredIds {
  readonly #run: (ids: readonly string[]) => Promise<readonly Standing[]>
  #waiting: Waiting[] = []
  #isRunning = false

  constructor(run: (ids: readonly string[]) => Promise<readonly Standing[]>) {
    this.#run = run
  }

  /** @returns what the command has answered for this id. */
  add(id: string): Promise<Standing> {
    if (!this.#isRunning) void this.#sendAll()
    return new Promise((resolve, reject) => void this.#waiting.push({ id, resolve, reject }))
  }

  async #sendAll(): Promise<void> {
    this.#isRunning = true
    for (;;) {
      // After an answer, the messages that have waited for it are handled in this time: the next ones of their keys.
      await new Promise((resolve) => setImmediate(resolve))
      if (this.#waiting.length === 0) break
      await this.#send()
    }
    this.#isRunning = false
  }

  async #send(): Promise<void> {
    const waiting = this.#waiting
    this.#waiting = []
    try {
      const answers = await this.#run(waiting.map(({ id }) => id))
      for (const [n, { resolve }] of waiting.entries()) resolve(answers[n] ?? 'lost')
    } catch (error) {
      for (const { reject } of waiting) reject(error)
    }
  }
}
