/** An abort controller that is created when its signal is asked for: creating one costs more than a short handler. */
export class LazyAbort {
  #controller: AbortController | undefined
  #isAborted = false
  #reason: unknown
  #listener: (() => void) | undefined

  get isAborted(): boolean {
    return this.#isAborted
  }

  get reason(): unknown {
    return this.#reason
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController()
      if (this.#isAborted) this.#controller.abort(this.#reason)
    }
    return this.#controller.signal
  }

  /** The first reason counts. */
  abort(reason: unknown): void {
    if (this.#isAborted) return
    this.#isAborted = true
    this.#reason = reason
    this.#controller?.abort(reason)
    this.#listener?.()
  }

  /** Sets the only listener, which is called once after the abort; at once if that has happened already. */
  onAbort(listener: () => void): void {
    this.#listener = listener
    if (this.#isAborted) listener()
  }
}
