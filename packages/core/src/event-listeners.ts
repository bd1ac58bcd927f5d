type Listener<T> = (event: T) => unknown

/** Listeners by name of the event. Unlike an EventEmitter, an unheard 'error' does not throw, and no listener can. */
export class EventListeners<Events extends { error: { error: unknown } }> {
  readonly #listeners = new Map<keyof Events, Set<Listener<never>>>()
  readonly #unheard: (<E extends keyof Events>(event: E, value: Events[E]) => void) | undefined

  /** @param unheard is called for each event that has no listener. */
  constructor(unheard?: <E extends keyof Events>(event: E, value: Events[E]) => void) {
    this.#unheard = unheard
  }

  on<E extends keyof Events>(event: E, listener: Listener<Events[E]>): () => void {
    const set = this.#listeners.get(event) ?? new Set()
    this.#listeners.set(event, set.add(listener))
    return () => void set.delete(listener)
  }

  hears(event: keyof Events): boolean {
    return (this.#listeners.get(event)?.size ?? 0) > 0
  }

  emit<E extends keyof Events>(event: E, value: Events[E]): void {
    if (!this.hears(event)) return this.#tellUnheard(event, value)
    for (const listener of this.#listeners.get(event) ?? []) {
      // Inside an async function, so that a promise that rejects counts too.
      void (async () => (listener as Listener<Events[E]>)(value))().catch((error: unknown) => {
        if (event !== 'error') this.emit('error', { error })
      })
    }
  }

  #tellUnheard<E extends keyof Events>(event: E, value: Events[E]): void {
    try {
      this.#unheard?.(event, value)
    } catch {
      // An error object whose properties throw must not stop the emitter.
    }
  }
}
