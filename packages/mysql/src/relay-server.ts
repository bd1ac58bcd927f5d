/** Then every connection is asked again: a proxy may have put another server behind it. */
const FORGOTTEN_AFTER_MS = 30_000

/** The second in which a server began is its clock less its uptime: two roundings, and a clock that is being set. */
const BEGAN_TOLERANCE_S = 2

/**
 * Two messages are numbered about when they are stamped: one with a smaller number is hardly ever younger by more than this.
 * Where it is, all that happens is that something has to be looked at again.
 */
const STAMP_TOLERANCE_US = 1_000_000

interface Numbered {
  readonly seq: bigint
  readonly stamp: number
}

/**
 * Tells when the server is another one, was begun again, or has gone back in time: by what connections say, and by
 * numbers that are given out again.
 */
export class RelayServer {
  readonly #connections = new Set<number>()
  #askedAt = performance.now()
  #server: { readonly name: string; readonly beganAtS: number } | undefined
  /** The message with the greatest number of all. */
  #last: Numbered | undefined
  #generation = 0

  /** Grows when the server turns out to be another one. */
  get generation(): number {
    return this.#generation
  }

  /** Connections of which it is known where they lead. */
  get connections(): readonly number[] {
    if (performance.now() - this.#askedAt > FORGOTTEN_AFTER_MS) {
      this.#connections.clear()
      this.#askedAt = performance.now()
    }
    // Never empty, for a list in SQL.
    return [0, ...this.#connections]
  }

  /** What a connection says: the name of its server, and the second in which that began. */
  connected(connection: number, server: string): void {
    const [name, beganAtS] = [server.slice(0, server.lastIndexOf('/')), Number(server.split('/').at(-1))]
    const known = this.#server
    this.#server = { name, beganAtS }
    if (
      known !== undefined &&
      (known.name !== name || Math.abs(known.beganAtS - beganAtS) > BEGAN_TOLERANCE_S)
    ) {
      this.#becomesAnother()
    }
    this.#connections.add(connection)
  }

  /** Messages of the outbox as they were read. */
  read(messages: readonly Numbered[]): void {
    for (const { seq, stamp } of messages) {
      if (this.#last === undefined || seq >= this.#last.seq) this.#last = { seq, stamp }
      // TRUNCATE, or AUTO_INCREMENT was set back.
      else if (stamp > this.#last.stamp + STAMP_TOLERANCE_US) {
        this.#becomesAnother()
        this.#last = { seq, stamp }
      }
    }
  }

  #becomesAnother(): void {
    this.#connections.clear()
    this.#last = undefined
    this.#generation++
  }
}
