/** A request whose handler runs in this process. */
export interface Flight {
  readonly fingerprint: Uint8Array
  readonly ended: Promise<void>
  end(): void
}

/** The requests whose claims this process has won, and whose transactions have not ended yet. */
export class Flights {
  readonly #byKey = new Map<string, Flight>()

  get(key: string): Flight | undefined {
    return this.#byKey.get(key)
  }

  begin(key: string, fingerprint: Uint8Array): Flight {
    const { promise: ended, resolve } = Promise.withResolvers<void>()
    const flight: Flight = {
      fingerprint,
      ended,
      end: () => {
        if (this.#byKey.get(key) === flight) this.#byKey.delete(key)
        resolve()
      },
    }
    this.#byKey.set(key, flight)
    return flight
  }
}
