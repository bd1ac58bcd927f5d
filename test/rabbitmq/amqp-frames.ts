import net from 'node:net'

/** Bytes before the payload of an AMQP frame. */
export const HEADER_BYTES = 7

/** The byte at the end of a frame. */
export const FRAME_END = 0xce

/** Whether the frame is of this method: 16 bits for the class, and 16 for the method. */
export function isMethod(frame: Buffer, method: number): boolean {
  return frame.readUInt8() === 1 && frame.readUInt32BE(HEADER_BYTES) === method
}

/** Splits the bytes of a connection into AMQP frames. */
export class FrameReader {
  #rest: Buffer = Buffer.alloc(0)
  #prologueBytes: number

  /** @param prologueBytes how many bytes at the beginning are no frame. They are passed on as one piece. */
  constructor(prologueBytes = 0) {
    this.#prologueBytes = prologueBytes
  }

  /** Returns the pieces that are complete with these bytes. */
  pieces(bytes: Buffer): { readonly bytes: Buffer; readonly isFrame: boolean }[] {
    this.#rest = Buffer.concat([this.#rest, bytes])
    const pieces: { readonly bytes: Buffer; readonly isFrame: boolean }[] = []
    for (let length = this.#nextBytes(); length <= this.#rest.length; length = this.#nextBytes()) {
      pieces.push({ bytes: this.#rest.subarray(0, length), isFrame: this.#prologueBytes === 0 })
      this.#prologueBytes = 0
      this.#rest = this.#rest.subarray(length)
    }
    return pieces
  }

  #nextBytes(): number {
    if (this.#prologueBytes > 0) return this.#prologueBytes
    if (this.#rest.length < HEADER_BYTES) return Infinity
    return HEADER_BYTES + this.#rest.readUInt32BE(3) + 1
  }
}

/** Starts a TCP proxy on a free port. `connected` gets each client with its connection to the target. */
export async function listen(
  server: net.Server,
  target: { readonly host: string; readonly port: number },
  connected: (client: net.Socket, server: net.Socket) => void,
): Promise<void> {
  server.on('connection', (client) => {
    const upstream = net.connect(target)
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true)
      socket.on('error', () => undefined)
    }
    connected(client, upstream)
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
}

export function addressOf(server: net.Server): { host: string; port: number } {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The proxy is closed.')
  return { host: '127.0.0.1', port: address.port }
}
