/*
 * PostgreSQL checks the server within each statement; on MySQL and MariaDB, each answer contains the name of the
 * server.
 */
import { ANOTHER_SERVER } from './relay-statements.ts'

/** How many times in a row a read may find that the server is another one. */
const ATTEMPTS = 5

/** Distinguishes a server and its tables from others with the same address. */
export interface Server {
  readonly identity: string
  /** The last number that the server is known to have assigned; 0 if the role may not read it. */
  readonly last: bigint
}

/**
 * The server whose numbers are remembered. Statements that rely on a remembered number name this server, and fail on
 * any other: there is no time between checking and reading in which a server could be replaced.
 */
export class RelayServer {
  readonly #ask: () => Promise<Server>
  readonly #forget: () => void
  #server: Server | undefined
  #asking: Promise<Server> | undefined
  #generation = 0

  /** @param forget discards everything that is remembered about the server. */
  constructor(ask: () => Promise<Server>, forget: () => void) {
    this.#ask = ask
    this.#forget = forget
  }

  /** Increases when the server turns out to be another one. */
  get generation(): number {
    return this.#generation
  }

  /** Runs a read that names the server; repeats the read when the server turns out to be another one. */
  async remembering<R>(read: (server: Server) => Promise<R>): Promise<R> {
    for (let attempt = 1; ; attempt++) {
      const { generation } = this
      try {
        return await read(this.#server ?? (await this.#known()))
      } catch (error) {
        if (attempt === ATTEMPTS || !isAnotherServer(error)) throw error
        if (generation === this.#generation) this.#becomes(undefined)
      }
    }
  }

  /** Processes an answer that contains the identity of the server. */
  answered(server: Server): void {
    if (this.#server === undefined) return
    if (server.identity !== this.#server.identity || server.last < this.#server.last) this.#becomes(server)
    else this.#server = server
  }

  #becomes(server: Server | undefined): void {
    this.#server = server
    this.#generation++
    this.#forget()
  }

  #known(): Promise<Server> {
    this.#asking ??= this.#ask()
      .then((server) => (this.#server = server))
      .finally(() => (this.#asking = undefined))
    return this.#asking
  }
}

function isAnotherServer(error: unknown): boolean {
  return error instanceof Error && error.message.includes(ANOTHER_SERVER)
}
