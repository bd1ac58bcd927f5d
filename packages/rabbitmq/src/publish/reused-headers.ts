type Headers = Readonly<Record<string, string>>

/**
 * One object for the headers of all messages, one after another. The client makes the headers the prototype of another
 * object, which is expensive the first time and cheap later. The client reads the headers before `publish` returns.
 *
 * Measured: with an object for each message, the relay took 1.17 times the CPU time.
 */
export class ReusedHeaders {
  #names: readonly string[] = []
  #object: Record<string, string> = {}

  /** The object is valid until the next call. */
  of(headers: Headers): Headers {
    const names = Object.keys(headers)
    if (equal(names, this.#names)) {
      // Each name is an own property by now, so a name like __proto__ needs no special care.
      for (const name of names) this.#object[name] = headers[name]!
    } else {
      this.#names = names
      this.#object = { ...headers }
    }
    return this.#object
  }
}

function equal(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((name, place) => name === others[place])
}
