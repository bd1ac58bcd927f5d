import type net from 'node:net'
import { FaultyDirection } from './faulty-direction.ts'

/** The faults that hold for all connections of a proxy. */
export interface Faults {
  readonly silent: { toServer: boolean; toClient: boolean }
  halted: boolean
  delayMs: number
}

/** A client's connection to the server, in both directions. */
export class FaultyConnection {
  readonly #sockets: readonly net.Socket[]
  readonly #directions: readonly FaultyDirection[]
  readonly #closed: () => void
  /** How many bytes may still pass, in both directions together. */
  #left = Infinity

  constructor(client: net.Socket, server: net.Socket, faults: Faults, closed: () => void) {
    this.#sockets = [client, server]
    this.#closed = closed
    const pass = (bytes: Buffer, to: net.Socket): void => this.#pass(bytes, to)
    const delayMs = (): number => faults.delayMs
    this.#directions = [
      new FaultyDirection(client, server, {
        isHeld: () => faults.halted || faults.silent.toServer,
        delayMs,
        pass,
      }),
      new FaultyDirection(server, client, {
        isHeld: () => faults.halted || faults.silent.toClient,
        delayMs,
        pass,
      }),
    ]
    for (const socket of this.#sockets) {
      socket.setNoDelay(true)
      socket.on('close', () => {
        if (this.#sockets.every(({ destroyed }) => destroyed)) closed()
      })
    }
    this.flow()
  }

  /** Resets the connection on both sides. */
  cut(): void {
    this.#left = 0
    for (const socket of this.#sockets) socket.resetAndDestroy()
    this.#closed()
  }

  cutAfterBytes(bytes: number): void {
    this.#left = bytes
    if (bytes === 0) this.cut()
  }

  /** Forwards the bytes that may pass, after the faults have changed. */
  flow(): void {
    for (const direction of this.#directions) direction.flow()
  }

  #pass(bytes: Buffer, to: net.Socket): void {
    if (this.#left === 0) return
    const part = bytes.length > this.#left ? bytes.subarray(0, this.#left) : bytes
    this.#left -= part.length
    // A reset throws away what has not been sent: the last byte goes to the network first.
    if (this.#left === 0) to.write(part, () => this.cut())
    else to.write(part)
  }
}
