import type { Standing } from './stream-group.ts'

interface Waiting {
  readonly id: string
  readonly resolve: (standing: Standing) => void
  readonly reject: (error: unknown) => void
}

/** Gathers the ids of one turn of the event loop into one command. */
export class GatheredIds {
  readonly #run: (ids: readonly string[]) => Promise<readonly Standing[]>
  #waiting: Waiting[] = []

  constructor(run: (ids: readonly string[]) => Promise<readonly Standing[]>) {
    this.#run = run
  }

  /** @returns what the command has answered for this id. */
  add(id: string): Promise<Standing> {
    if (this.#waiting.length === 0) setImmediate(() => void this.#send())
    return new Promise((resolve, reject) => void this.#waiting.push({ id, resolve, reject }))
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
