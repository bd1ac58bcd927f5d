import net from 'node:net'

interface Link {
  readonly client: net.Socket
  readonly server: net.Socket
}

/** A network between a client and the database that can be cut, stay away for a time, or swallow everything. */
export class UnreliableNetwork {
  readonly #target: { readonly host: string; readonly port: number }
  readonly #fromServer: (bytes: Buffer) => Buffer
  readonly #links = new Set<Link>()
  #listener: net.Server | undefined
  #port = 0
  #frozen = false
  /** The number of requests that still pass, and the action at the next one. */
  #limit: { left: number; readonly reached: () => void } | undefined

  private constructor(
    target: { readonly host: string; readonly port: number },
    fromServer: (bytes: Buffer) => Buffer,
  ) {
    this.#target = target
    this.#fromServer = fromServer
  }

  /** @param fromServer changes what the server sends. */
  static async to(
    target: { host: string; port: number },
    fromServer: (bytes: Buffer) => Buffer = (bytes) => bytes,
  ): Promise<UnreliableNetwork> {
    const network = new UnreliableNetwork(target, fromServer)
    await network.up()
    return network
  }

  get address(): { host: string; port: number } {
    return { host: '127.0.0.1', port: this.#port }
  }

  /** Breaks all connections; new ones can be made. */
  cut(): void {
    for (const { client, server } of this.#links) {
      client.destroy()
      server.destroy()
    }
  }

  /** Breaks all connections and refuses new ones. */
  async down(): Promise<void> {
    const listener = this.#listener
    this.#listener = undefined
    const closed = new Promise((resolve) => listener?.close(resolve))
    this.cut()
    if (listener !== undefined) await closed
  }

  /** Accepts connections again, at the same address. */
  async up(): Promise<void> {
    if (this.#listener !== undefined) return
    const listener = net.createServer((client) => this.#connect(client))
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject)
      listener.listen(this.#port, '127.0.0.1', resolve)
    })
    this.#listener = listener
    const address = listener.address()
    this.#port = typeof address === 'object' && address !== null ? address.port : 0
  }

  /** Stops forwarding, without an error: connections look open, and new connections get no answer. */
  freeze(): void {
    this.#frozen = true
    for (const link of this.#links) pauseBoth(link)
  }

  /**
   * Freezes between two statements: as soon as a client sends data after so many requests. @returns a promise for that,
   * which may never resolve.
   */
  freezeAfter(requests: number): Promise<void> {
    const reached = Promise.withResolvers<void>()
    this.#limit = { left: requests, reached: reached.resolve }
    return reached.promise
  }

  /** Forwards the held bytes. */
  thaw(): void {
    this.#frozen = false
    for (const { client, server } of this.#links) {
      client.resume()
      server.resume()
    }
  }

  /**
   * The existing connections never forward anything again, without an error; new connections work. This
   * happens after a firewall has forgotten them. @returns a function that cuts them
   */
  abandon(): { cut(): void } {
    const abandoned = [...this.#links]
    for (const link of abandoned) pauseBoth(link)
    return {
      cut() {
        for (const { client, server } of abandoned) {
          client.destroy()
          server.destroy()
        }
      },
    }
  }

  async close(): Promise<void> {
    await this.down()
  }

  #connect(client: net.Socket): void {
    const server = net.connect(this.#target)
    const link = { client, server }
    this.#links.add(link)
    const cut = (): void => {
      this.#links.delete(link)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      socket.on('error', cut)
      socket.on('close', cut)
    }
    client.on('data', (bytes) => {
      if (this.#limit?.left === 0) {
        this.freeze()
        this.#limit.reached()
        return
      }
      if (this.#limit !== undefined) this.#limit.left -= 1
      server.write(bytes)
    })
    server.on('data', (bytes) => client.write(this.#fromServer(bytes)))
    if (this.#frozen) pauseBoth(link)
  }
}

function pauseBoth({ client, server }: Link): void {
  client.pause()
  server.pause()
}
