import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

const attempts = new AsyncLocalStorage<AttemptedSockets>()
let isListening = false

/**
 * The sockets of an attempt to connect. The client leaves a socket open whose server accepts the connection and then says nothing: an
 * outage would collect one for each attempt.
 */
export class AttemptedSockets {
  readonly #sockets = new Set<Socket>()
  #isOver = false

  /** Runs the attempt. */
  during<R>(attempt: () => R): R {
    listen()
    return attempts.run(this, attempt)
  }

  /** Called for each socket of the attempt. */
  add(socket: Socket): void {
    if (this.#isOver) socket.destroy()
    else this.#sockets.add(socket)
  }

  /** The attempt has failed: its sockets end, also those that it still makes. */
  destroy(): void {
    this.#isOver = true
    for (const socket of this.#sockets) socket.destroy()
    this.#sockets.clear()
  }

  /** The attempt has succeeded: its sockets are the client's. */
  keep(): void {
    this.#sockets.clear()
  }
}

function listen(): void {
  if (isListening) return
  isListening = true
  subscribe('net.client.socket', (message) =>
    attempts.getStore()?.add((message as { socket: Socket }).socket),
  )
}
