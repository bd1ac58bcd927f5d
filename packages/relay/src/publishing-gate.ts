/** Any number may publish at a time, or one alone: who wants to be alone waits for the others and keeps new ones waiting. */
export class PublishingGate {
  #publishing = 0
  #alone = 0
  #changed: (() => void)[] = []

  async together<R>(work: () => Promise<R>): Promise<R> {
    while (this.#alone > 0) await this.#change()
    this.#publishing++
    try {
      return await work()
    } finally {
      this.#publishing--
      this.#tell()
    }
  }

  async alone<R>(work: () => Promise<R>): Promise<R> {
    // Those who want to be alone take turns; from here on nobody else begins.
    while (this.#alone > 0) await this.#change()
    this.#alone++
    try {
      while (this.#publishing > 0) await this.#change()
      return await work()
    } finally {
      this.#alone--
      this.#tell()
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => this.#changed.push(resolve))
  }

  #tell(): void {
    for (const changed of this.#changed.splice(0)) changed()
  }
}
