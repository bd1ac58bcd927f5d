import net from 'node:net'
import { FrameReader, HEADER_BYTES, addressOf, isMethod, listen } from './amqp-frames.ts'

/** The client begins a connection with these bytes, which are no frame: AMQP and the version of the protocol. */
const PROTOCOL_BYTES = 8

/** basic.publish: class 60, method 40. */
const BASIC_PUBLISH = 0x00_3c_00_28

/**
 * A TCP proxy in front of RabbitMQ in which a queue blocks channels: what a client sends on a channel is held from the first
 * message with the blocked routing key on. RabbitMQ does this while a quorum queue does not answer: the first message that a
 * channel publishes to the queue registers the channel with the leader of the queue.
 */
export class BlockingProxy {
  readonly #server = net.createServer()
  readonly #sockets = new Set<net.Socket>()
  #blockedKey: string | undefined
  /** The number of channels that were blocked. */
  blocked = 0

  static async to(target: { host: string; port: number }): Promise<BlockingProxy> {
    const proxy = new BlockingProxy()
    await listen(proxy.#server, target, (client, server) => proxy.#connect(client, server))
    return proxy
  }

  get address(): { host: string; port: number } {
    return addressOf(this.#server)
  }

  /** From now on, a message with this routing key blocks its channel for good. */
  block(routingKey: string): void {
    this.#blockedKey = routingKey
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #connect(client: net.Socket, server: net.Socket): void {
    for (const socket of [client, server]) {
      this.#sockets.add(socket)
      socket.on('close', () => {
        client.destroy()
        server.destroy()
      })
    }
    server.on('data', (bytes) => client.write(bytes))
    const blockedChannels = new Set<number>()
    const reader = new FrameReader(PROTOCOL_BYTES)
    client.on('data', (received) => {
      for (const { bytes, isFrame } of reader.pieces(received)) {
        if (isFrame) this.#pass(bytes, server, blockedChannels)
        else server.write(bytes)
      }
    })
  }

  #pass(frame: Buffer, server: net.Socket, blockedChannels: Set<number>): void {
    const channel = frame.readUInt16BE(1)
    if (!blockedChannels.has(channel) && this.#isBlocking(frame)) {
      blockedChannels.add(channel)
      this.blocked += 1
    }
    if (!blockedChannels.has(channel)) server.write(frame)
  }

  #isBlocking(frame: Buffer): boolean {
    if (!isMethod(frame, BASIC_PUBLISH)) return false
    const exchangeAt = HEADER_BYTES + 6
    const keyAt = exchangeAt + 1 + frame.readUInt8(exchangeAt)
    return frame.toString('utf8', keyAt + 1, keyAt + 1 + frame.readUInt8(keyAt)) === this.#blockedKey
  }
}
