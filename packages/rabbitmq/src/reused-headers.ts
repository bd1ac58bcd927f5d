/** The header that carries a message's ordering key. */
const KEY_HEADER = 'txbox-key'

type Headers = Readonly<Record<string, string>>

/**
 * One object for the headers of one message after another. The client makes it the prototype of another object, which
 * costs more than all the rest of writing a message the first time, and next to nothing later. It is read before
 * `publish` returns.
 */
export class ReusedHeaders {
  #names: readonly string[] = []
  #keyed = false
  #object: Record<string, string> = {}

  /** An object with these, and the ordering key among them if there is one. It is this until the next call. */
  of(headers: Headers, key: string | undefined): Headers {
    const names = Object.keys(headers)
    const keyed = key !== undefined
    if (keyed !== this.#keyed || !equal(names, this.#names)) {
      this.#names = names
      this.#keyed = keyed
      this.#object = keyed ? { ...headers, [KEY_HEADER]: key } : { ...headers }
    } else {
      // Each is a property of its own by now, so that a name like __proto__ is one as any other.
      for (const name of names) this.#object[name] = headers[name]!
      if (keyed) this.#object[KEY_HEADER] = key
    }
    return this.#object
  }
}

function equal(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && some.every((name, place) => name === others[place])
}
