import { connect, type Socket } from 'node:net'

type Listener = (event: {
  readonly type?: string
  readonly data?: ArrayBuffer
  readonly message?: string
}) => void

/** In the place of a WebSocket to a proxy of Neon: the bytes go to the server itself. */
export class SocketOverTcp {
  binaryType = 'arraybuffer'
  readonly #socket: Socket
  readonly #listeners = new Map<string, Listener[]>()

  /** @param url such as 'ws://127.0.0.1:5432'. */
  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#socket = connect(Number(port), hostname)
    this.#socket.setNoDelay(true)
    this.#socket.on('connect', () => this.#emit('open', {}))
    this.#socket.on('data', (bytes) => this.#emit('message', { data: new Uint8Array(bytes).buffer }))
    this.#socket.on('error', ({ message }) => this.#emit('error', { type: 'error', message }))
    this.#socket.on('close', () => this.#emit('close', {}))
  }

  addEventListener(name: string, listener: Listener): void {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener])
  }

  send(bytes: Uint8Array): void {
    this.#socket.write(bytes)
  }

  close(): void {
    this.#socket.end()
  }

  #emit(name: string, event: Parameters<Listener>[0]): void {
    for (const listener of this.#listeners.get(name) ?? []) listener(event)
  }
}
