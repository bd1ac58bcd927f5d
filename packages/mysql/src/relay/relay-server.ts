/*
 * On MySQL and MariaDB, each answer contains the name of the server; PostgreSQL checks the server within each
 * statement.
 */
/** After this time, every connection is asked again: a proxy may have put another server behind a connection. */
const FORGOTTEN_AFTER_MS = 30_000

/**
 * The tolerance for the start time of a server, which is its clock minus its uptime: both are rounded, and the clock
 * may be adjusted.
 */
const BEGAN_TOLERANCE_S = 2

/**
 * Messages are numbered at about the time of their stamp: a message with a smaller number is rarely younger by more
 * than this. If it is, the only consequence is one more query.
 */
const STAMP_TOLERANCE_US = 1_000_000

interface Numbered {
  readonly seq: bigint
  readonly stamp: number
}

/**
 * Detects that the server was replaced, was restarted, or has gone back in time. Two things show this: the answers of
 * connections, and numbers that are assigned again.
 */
export class RelayServer {
  readonly #connections = new Set<number>()
  #askedAt = performance.now()
  #server: { readonly name: string; readonly beganAtS: number } | undefined
  /** The message with the greatest number that has been read. */
  #last: Numbered | undefined
  #generation = 0

  /** Increases when the server turns out to be another one. */
  get generation(): number {
    return this.#generation
  }

  /** The name of the known server; empty if no server is known. */
  get name(): string {
    return this.#server?.name ?? ''
  }

  get connections(): readonly number[] {
    if (performance.now() - this.#askedAt > FORGOTTEN_AFTER_MS) {
      this.#connections.clear()
      this.#askedAt = performance.now()
    }
    // The list is never empty, because `IN ()` is not valid SQL.
    return [0, ...this.#connections]
  }

  /** Processes the answer of a connection: the name of its server, and the second in which the server started. */
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

  read(messages: readonly Numbered[]): void {
    for (const { seq, stamp } of messages) {
      if (this.#last === undefined || seq >= this.#last.seq) this.#last = { seq, stamp }
      // A younger message with a smaller number: the table was truncated, or AUTO_INCREMENT was set back.
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
