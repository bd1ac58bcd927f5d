import net from 'node:net'
import { MysqlCommands } from './mysql-commands.ts'

/**
 * A TCP proxy in front of a database. It counts round trips, and can cut a connection around a statement, or make a
 * statement invalid, which no client can do to itself.
 */
export class Proxy {
  readonly #server: net.Server
  readonly #sockets = new Set<net.Socket>()
  #roundTrips = 0
  #opened = 0
  #faults: Fault[] = []
  #refusing = false
  #death: { requestsLeft: number; readonly phase: KillPhase; readonly killed: () => void } | undefined

  private constructor(server: net.Server) {
    this.#server = server
  }

  static async to(target: { host: string; port: number }): Promise<Proxy> {
    const server = net.createServer()
    const proxy = new Proxy(server)
    server.on('connection', (client) => {
      if (proxy.#refusing) client.destroy()
      else proxy.#connect(client, net.connect(target))
    })
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    return proxy
  }

  get address(): { host: string; port: number } {
    const address = this.#server.address()
    if (address === null || typeof address === 'string') throw new Error('The proxy is closed.')
    return { host: '127.0.0.1', port: address.port }
  }

  /**
   * The number of times, since `countFromHere`, that a client spoke after the server had spoken: what a client sends
   * without waiting for an answer is one round trip.
   */
  get roundTrips(): number {
    return this.#roundTrips
  }

  /** The number of connections that clients have opened. */
  get opened(): number {
    return this.#opened
  }

  countFromHere(): void {
    this.#roundTrips = 0
  }

  /** Cuts the connection instead of forwarding the next matching statement. */
  cutBefore(statement: RegExp): void {
    this.#faults.push({ statement, at: 'before' })
  }

  /** Forwards the next matching statement, and cuts the connection instead of returning its answer. */
  cutAfter(statement: RegExp): void {
    this.#faults.push({ statement, at: 'after' })
  }

  /** Replaces the next matching statement by invalid text of the same length, which the server refuses. */
  garble(statement: RegExp): void {
    this.#faults.push({ statement, at: 'garble' })
  }

  /**
   * Holds the next matching statement until it is released. `reached` resolves when the statement has arrived; later
   * statements of the client wait too.
   */
  hold(statement: RegExp): { reached: Promise<void>; letGo: () => void } {
    const reached = Promise.withResolvers<void>()
    const gone = Promise.withResolvers<void>()
    this.#faults.push({ statement, at: 'hold', reached: () => reached.resolve(), gone: gone.promise })
    return { reached: reached.promise, letGo: () => gone.resolve() }
  }

  /**
   * Ends all connections for good at this request, as the kernel does when the client's process is killed. The promise
   * resolves when that has happened.
   */
  killAt(request: number, phase: KillPhase): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#death = { requestsLeft: request, phase, killed: resolve }
    return promise
  }

  /** Cuts all connections, and every new one at once, like a server that is gone, until the outage ends. */
  refuse(): { over: () => void } {
    this.#refusing = true
    this.cut()
    return { over: () => void (this.#refusing = false) }
  }

  /** Cuts all connections; the proxy continues listening. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #connect(client: net.Socket, server: net.Socket): void {
    this.#opened += 1
    let spoke: 'client' | 'server' = 'server'
    let commands: MysqlCommands | undefined
    let silent = true
    let cutAtAnswer = false
    let dieAtAnswer = false
    const cut = (): void => {
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.setNoDelay(true)
      socket.on('error', cut)
      socket.on('close', () => {
        this.#sockets.delete(socket)
        cut()
      })
    }
    let held = Promise.resolve()
    client.on('data', (bytes) => {
      silent = false
      if (commands?.waitForAnswer(bytes) ?? true) {
        const phase = spoke === 'server' ? this.#nextRequest() : undefined
        spoke = 'client'
        if (phase === 'sent') server.write(bytes)
        if (phase === 'before' || phase === 'sent') return this.#die()
        dieAtAnswer = phase === 'answered'
      }
      const fault = this.#faultIn(bytes)
      if (fault?.at === 'before') return cut()
      if (fault?.at === 'after') cutAtAnswer = true
      if (fault?.at === 'hold') {
        fault.reached()
        held = held.then(() => fault.gone)
      }
      const passed = fault?.at === 'garble' ? garbled(bytes, fault.statement) : bytes
      void held.then(() => server.write(passed))
    })
    server.on('data', (bytes) => {
      // Servers of MySQL and MariaDB speak first.
      if (silent) commands = new MysqlCommands()
      silent = false
      spoke = 'server'
      if (dieAtAnswer) this.#die()
      else if (cutAtAnswer) cut()
      else client.write(bytes)
    })
  }

  /** Counts a request. @returns when all connections end, if they end at this request. */
  #nextRequest(): KillPhase | undefined {
    this.#roundTrips += 1
    const death = this.#death
    if (death === undefined) return undefined
    death.requestsLeft -= 1
    return death.requestsLeft === 0 ? death.phase : undefined
  }

  #die(): void {
    this.refuse()
    this.#death?.killed()
  }

  /** Each fault happens once. */
  #faultIn(bytes: Buffer): Fault | undefined {
    const text = bytes.toString('latin1')
    const index = this.#faults.findIndex((fault) => fault.statement.test(text))
    return index === -1 ? undefined : this.#faults.splice(index, 1)[0]
  }
}

/** Before a request is sent, while the server has it, or when its answer has arrived at the client. */
export type KillPhase = 'before' | 'sent' | 'answered'

type Fault =
  | { readonly statement: RegExp; readonly at: 'before' | 'after' | 'garble' }
  | {
      readonly statement: RegExp
      readonly at: 'hold'
      readonly reached: () => void
      readonly gone: Promise<void>
    }

function garbled(bytes: Buffer, statement: RegExp): Buffer {
  return Buffer.from(
    bytes.toString('latin1').replace(statement, (match) => 'X'.repeat(match.length)),
    'latin1',
  )
}
