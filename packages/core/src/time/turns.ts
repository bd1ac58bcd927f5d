/** Runs pieces of work one after the other, in the order of the calls. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve()

  run<R>(work: () => Promise<R>): Promise<R> {
    const result = this.#last.then(work)
    // The caller gets the error; the next work runs all the same.
    this.#last = result.catch(() => undefined)
    return result
  }

  /** Waits until no work is left. */
  async idle(): Promise<void> {
    for (let last: unknown; last !== this.#last;) {
      last = this.#last
      await this.#last
    }
  }
}

/** The turns of each of several objects, such as connections. */
export class TurnsByObject {
  readonly #turns = new WeakMap<object, Turns>()

  of(object: object): Turns {
    let turns = this.#turns.get(object)
    if (turns === undefined) this.#turns.set(object, (turns = new Turns()))
    return turns
  }
}
