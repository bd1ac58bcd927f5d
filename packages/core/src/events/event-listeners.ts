type Listener<T> = (event: T) => unknown

/**
 * Event listeners by event name. Unlike with an EventEmitter, an 'error' event without a listener does not throw, and
 * an error that a listener throws does not reach the emitter.
 */
export class EventListeners<Events extends { error: { error: unknown } }> {
  readonly #listeners = new Map<keyof Events, Set<Listener<never>>>()
  readonly #onUnheard: (<E extends keyof Events>(event: E, value: Events[E]) => void) | undefined
  readonly #taps: ((event: keyof Events, value: unknown) => void)[] = []

  /** @param onUnheard is called for each event that has no listener. */
  constructor(onUnheard?: <E extends keyof Events>(event: E, value: Events[E]) => void) {
    this.#onUnheard = onUnheard
  }

  on<E extends keyof Events>(event: E, listener: Listener<Events[E]>): () => void {
    const set = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, set.add(listener))
    return () => void set.delete(listener)
  }

  /** Calls `tap` with every event. A tap must not throw, and is no listener: an event without a listener is still passed to `onUnheard`. */
  tap(tap: (event: keyof Events, value: unknown) => void): void {
    this.#taps.push(tap)
  }

  has(event: keyof Events): boolean {
    return (this.#listeners.get(event)?.size ?? 0) > 0
  }

  emit<E extends keyof Events>(event: E, value: Events[E]): void {
    for (const tap of this.#taps) tap(event, value)
    if (!this.has(event)) return this.#reportUnheard(event, value)
    for (const listener of this.#listeners.get(event) ?? []) {
      try {
        const answer = (listener as Listener<Events[E]>)(value)
        if (answer !== undefined)
          Promise.resolve(answer).catch((error: unknown) => this.#failed(event, error))
      } catch (error) {
        this.#failed(event, error)
      }
    }
  }

  #failed(event: keyof Events, error: unknown): void {
    if (event !== 'error') this.emit('error', { error })
  }

  #reportUnheard<E extends keyof Events>(event: E, value: Events[E]): void {
    try {
      this.#onUnheard?.(event, value)
    } catch {
      // An error object whose properties throw must not stop the emitter.
    }
  }
}
