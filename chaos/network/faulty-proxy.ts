import net from 'node:net'
import { freePort } from '../../test/support/engines/servers/free-port.ts'
import { FaultyConnection, type Faults } from './faulty-connection.ts'

/** A TCP proxy on 127.0.0.1 that causes the faults of networks on command. */
export interface FaultyProxy {
  /** The port that clients connect to. The port stays the same for the life of the proxy. */
  readonly port: number
  /** How many connections are open. */
  readonly connections: number
  /** Connects new clients to another server. Existing connections keep their server. */
  retarget(port: number): void
  /** Resets all connections, on both sides; new ones can be made. */
  cutAll(): void
  /**
   * Resets each connection that exists now after this many further bytes, counted in both directions together. Exactly
   * so many bytes pass, unless the receiver has stopped reading. 0 resets at once.
   */
  cutAfterBytes(bytes: number): void
  /**
   * Holds the bytes of a direction, on existing and new connections, while the connections look open. The end of a
   * connection is held too. The held bytes pass when the silence is over, unless the connection has been cut.
   */
  silence(direction: 'toServer' | 'toClient' | 'both', on: boolean): void
  /** Delays all bytes in each direction, so that a round trip takes twice as long. The order stays. @default 0 */
  latencyMs(delayMs: number): void
  /**
   * Stops everything: new connections are accepted but do not reach the server, and no byte passes. Later the held bytes pass.
   */
  halt(on: boolean): void
  /**
   * Refuses new connections, as a machine without a server does, from the next turn of the event loop on. Connections
   * that exist are left alone.
   */
  refuse(on: boolean): void
  /** Resets all connections and gives the port back. */
  close(): Promise<void>
}

/** Starts a proxy in front of a server on 127.0.0.1. */
export async function startFaultyProxy(target: number): Promise<FaultyProxy> {
  const proxy = new TcpProxy(target, await freePort())
  await proxy.listen()
  return proxy
}

class TcpProxy implements FaultyProxy {
  readonly port: number
  #target: number
  #listener: net.Server | undefined
  /** The last argument of `refuse`: listeners open and close one after the other. */
  #refusing = false
  #switching: Promise<void> = Promise.resolve()
  #halted = false
  readonly #faults: Faults = { silent: { toServer: false, toClient: false }, halted: false, delayMs: 0 }
  readonly #connections = new Set<FaultyConnection>()
  /** Connections that were accepted while the proxy is halted. */
  readonly #waiting = new Set<net.Socket>()

  constructor(target: number, port: number) {
    this.#target = target
    this.port = port
  }

  get connections(): number {
    return this.#connections.size + this.#waiting.size
  }

  async listen(): Promise<void> {
    const listener = net.createServer({ allowHalfOpen: true, pauseOnConnect: true }, (client) =>
      this.#accept(client),
    )
    await new Promise<void>((resolve, reject) => {
      listener.once('error', reject)
      listener.listen(this.port, '127.0.0.1', resolve)
    })
    this.#listener = listener
  }

  retarget(port: number): void {
    this.#target = port
  }

  cutAll(): void {
    for (const client of this.#waiting) client.resetAndDestroy()
    this.#waiting.clear()
    for (const connection of this.#connections) connection.cut()
  }

  cutAfterBytes(bytes: number): void {
    for (const connection of this.#connections) connection.cutAfterBytes(bytes)
  }

  silence(direction: 'toServer' | 'toClient' | 'both', on: boolean): void {
    if (direction !== 'toClient') this.#faults.silent.toServer = on
    if (direction !== 'toServer') this.#faults.silent.toClient = on
    this.#update()
  }

  latencyMs(delayMs: number): void {
    this.#faults.delayMs = delayMs
    this.#update()
  }

  halt(on: boolean): void {
    this.#halted = on
    this.#faults.halted = on
    this.#update()
    if (on) return
    for (const client of this.#waiting) this.#connect(client)
    this.#waiting.clear()
  }

  refuse(on: boolean): void {
    this.#refusing = on
    this.#switching = this.#switching.then(async () => {
      if (this.#refusing) this.#stopListening()
      else if (this.#listener === undefined) await this.listen()
    })
  }

  async close(): Promise<void> {
    this.refuse(true)
    await this.#switching
    this.cutAll()
  }

  #stopListening(): void {
    this.#listener?.close()
    this.#listener = undefined
  }

  #accept(client: net.Socket): void {
    // A client that is reset while it waits is detected when it is connected.
    client.on('error', () => undefined)
    if (this.#halted) this.#waiting.add(client)
    else this.#connect(client)
  }

  #connect(client: net.Socket): void {
    const server = net.connect({ host: '127.0.0.1', port: this.#target, allowHalfOpen: true })
    const connection = new FaultyConnection(client, server, this.#faults, () =>
      this.#connections.delete(connection),
    )
    this.#connections.add(connection)
  }

  #update(): void {
    for (const connection of this.#connections) connection.flow()
  }
}
