import net from 'node:net'
import { FRAME_END, FrameReader, HEADER_BYTES, addressOf, isMethod, listen } from './amqp-frames.ts'

/** The frame with the properties of a message. */
const CONTENT_HEADER = 2

/** The client begins a connection with these bytes, which are no frame: AMQP and the version of the protocol. */
const PROTOCOL_BYTES = 8

/** basic.ack: class 60, method 80. */
const BASIC_ACK = 0x00_3c_00_50
const TAG_AT = HEADER_BYTES + 4
const MULTIPLE_AT = HEADER_BYTES + 12
/** channel.close: class 20, method 40. */
const CHANNEL_CLOSE = 0x00_14_00_28
/** channel.close-ok: class 20, method 41. */
const CHANNEL_CLOSE_OK = 0x00_14_00_29
/** channel.open-ok: class 20, method 11. */
const CHANNEL_OPEN_OK = 0x00_14_00_0b
/** connection.blocked: class 10, method 60. */
const CONNECTION_BLOCKED = 0x00_0a_00_3c
/** connection.unblocked: class 10, method 61. */
const CONNECTION_UNBLOCKED = 0x00_0a_00_3d
/** connection.close: class 10, method 50. */
const CONNECTION_CLOSE = 0x00_0a_00_32
/** connection.close-ok: class 10, method 51. */
const CONNECTION_CLOSE_OK = 0x00_0a_00_33

interface Link {
  readonly client: net.Socket
  readonly server: net.Socket
  /** The delivery tags that the broker has confirmed, by channel. */
  readonly confirmed: Map<number, Set<number>>
}

/**
 * A TCP proxy in front of RabbitMQ that parses its answers frame by frame, to simulate a broker that is slow, faulty
 * or gone.
 */
export class FrameProxy {
  readonly #server = net.createServer()
  readonly #links = new Set<Link>()
  readonly #hidden = new Set<number>()
  readonly #delayed = new Map<number, (() => void) | undefined>()
  #pauseMs = 0
  #misnamed: { readonly id: string; readonly as: string } | undefined
  #renamed: { readonly header: string; readonly as: string } | undefined
  #cutAfterAcks = Infinity
  #holding = false
  #held: (() => void)[] = []
  /** The number of connections that were made. */
  connections = 0
  /** The number of basic.ack frames that the broker has sent. */
  acks = 0
  /** The number of connections that the broker was asked to close, and closed. */
  goodbyes = 0

  static async to(target: { host: string; port: number }): Promise<FrameProxy> {
    const proxy = new FrameProxy()
    await listen(proxy.#server, target, (client, server) => proxy.#connect(client, server))
    return proxy
  }

  get address(): { host: string; port: number } {
    return addressOf(this.#server)
  }

  /** Connections to the broker that it has not closed yet: until then it may still read what was sent. */
  get open(): number {
    return this.#links.size
  }

  /** Channels that are open, on all connections. */
  get channels(): number {
    return [...this.#links].reduce((count, { confirmed }) => count + confirmed.size, 0)
  }

  /** Bytes from clients stay in the operating system until `thaw`. */
  freeze(): void {
    for (const { client } of this.#links) client.pause()
  }

  thaw(): void {
    for (const { client } of this.#links) client.resume()
  }

  /** Holds answers until `release`, each confirm separately; bytes from clients are forwarded. */
  hold(): void {
    this.#holding = true
  }

  release(): void {
    this.#holding = false
    for (const pass of this.#held.splice(0)) pass()
  }

  /** Forwards one held answer. */
  releaseOne(): void {
    this.#held.shift()?.()
  }

  /** The confirm of this delivery tag never arrives, on any connection. */
  hideConfirm(deliveryTag: number): void {
    this.#hidden.add(deliveryTag)
  }

  /** From now on, all confirms arrive again. */
  showConfirms(): void {
    this.#hidden.clear()
  }

  /** A message with this id is returned with another id of the same length. */
  misname(id: string, as: string): void {
    this.#misnamed = { id, as }
  }

  /** Messages that are sent on later connections have this header under another name of the same length. */
  renameHeader(header: string, as: string): void {
    this.#renamed = { header, as }
  }

  /** Holds the confirm of this delivery tag until `releaseConfirm`, whatever else is forwarded. */
  delayConfirm(deliveryTag: number): void {
    this.#delayed.set(deliveryTag, undefined)
  }

  releaseConfirm(deliveryTag: number): void {
    this.#delayed.get(deliveryTag)?.()
    this.#delayed.delete(deliveryTag)
  }

  /** The number of held answers. */
  get held(): number {
    return this.#held.length
  }

  /** Simulates a slow connection: after each piece from a client, at most 64 KiB, it reads nothing for this long. */
  slowDown(pauseMs: number): void {
    this.#pauseMs = pauseMs
  }

  /** The connection breaks when this many further frames with confirms have passed. */
  cutAfter(acks: number): void {
    this.#cutAfterAcks = this.acks + acks
  }

  cut(): void {
    for (const { client, server } of this.#links) {
      client.destroy()
      server.destroy()
    }
  }

  /** Sends the frame of a broker that is short of memory. */
  announceBlocked(reason: string): void {
    this.#tell(CONNECTION_BLOCKED, shortString(reason))
  }

  announceUnblocked(): void {
    this.#tell(CONNECTION_UNBLOCKED, Buffer.alloc(0))
  }

  /** Sends the frame of a broker whose operator closes the connection. */
  closeByForce(reason: string): void {
    this.#tell(CONNECTION_CLOSE, closing(320, reason))
  }

  /** Sends the frame of a broker that closes the channel with this number. */
  closeChannel(channel: number, code: number, reason: string): void {
    this.#tell(CHANNEL_CLOSE, closing(code, reason), channel)
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #tell(method: number, fields: Buffer, channel = 0): void {
    const header = Buffer.alloc(HEADER_BYTES + 4)
    header.writeUInt8(1)
    header.writeUInt16BE(channel, 1)
    header.writeUInt32BE(4 + fields.length, 3)
    header.writeUInt32BE(method, HEADER_BYTES)
    for (const { client } of this.#links)
      client.write(Buffer.concat([header, fields, Buffer.from([FRAME_END])]))
  }

  #connect(client: net.Socket, server: net.Socket): void {
    this.connections += 1
    const link = { client, server, confirmed: new Map<number, Set<number>>() }
    this.#links.add(link)
    // The broker gets all that the client has sent.
    client.on('close', () => server.end())
    server.on('close', () => {
      this.#links.delete(link)
      client.destroy()
    })
    const renamed = this.#renamed
    const sent = new FrameReader(PROTOCOL_BYTES)
    client.on('data', (bytes) => {
      if (renamed === undefined) server.write(bytes)
      else for (const piece of sent.pieces(bytes)) server.write(withHeader(piece.bytes, renamed))
      if (this.#pauseMs === 0) return
      client.pause()
      setTimeout(() => client.resume(), this.#pauseMs)
    })
    const reader = new FrameReader()
    server.on('data', (received) => {
      for (const { bytes } of reader.pieces(received)) this.#pass(bytes, link)
    })
  }

  #pass(frame: Buffer, link: Link): void {
    if (isAck(frame)) this.acks += 1
    if (isMethod(frame, CONNECTION_CLOSE_OK)) this.goodbyes += 1
    if (this.acks > this.#cutAfterAcks) {
      this.#cutAfterAcks = Infinity
      link.client.destroy()
      return
    }
    if (frame.readUInt8() === CONTENT_HEADER && this.#misnamed !== undefined) {
      const at = frame.indexOf(this.#misnamed.id)
      if (at >= 0) frame.write(this.#misnamed.as, at)
    }
    // A new channel may have the number of an earlier channel.
    const channel = frame.readUInt16BE(1)
    if (isMethod(frame, CHANNEL_OPEN_OK)) link.confirmed.set(channel, new Set())
    if (isMethod(frame, CHANNEL_CLOSE) || isMethod(frame, CHANNEL_CLOSE_OK)) link.confirmed.delete(channel)
    const answers = isAck(frame) ? this.#confirms(frame, link.confirmed.get(channel)) : [frame]
    for (const answer of answers) {
      const tag = isAck(answer) ? Number(answer.readBigUInt64BE(TAG_AT)) : undefined
      if (tag !== undefined && this.#delayed.has(tag)) {
        this.#delayed.set(tag, () => link.client.write(answer))
      } else if (this.#holding) this.#held.push(() => link.client.write(answer))
      else link.client.write(answer)
    }
  }

  /** A frame that confirms several messages, as one frame for each; without those that are hidden. */
  #confirms(frame: Buffer, confirmed = new Set<number>()): Buffer[] {
    const last = Number(frame.readBigUInt64BE(TAG_AT))
    const multiple = frame.readUInt8(MULTIPLE_AT) === 1
    const fresh: number[] = []
    for (let tag = multiple ? 1 : last; tag <= last; tag += 1) if (!confirmed.has(tag)) fresh.push(tag)
    for (const tag of fresh) confirmed.add(tag)
    return fresh
      .filter((tag) => !this.#hidden.has(tag))
      .map((tag) => {
        const single = Buffer.from(frame)
        single.writeBigUInt64BE(BigInt(tag), TAG_AT)
        single.writeUInt8(0, MULTIPLE_AT)
        return single
      })
  }
}

/** The frame, in which a header has another name if the frame has the properties of a message. */
function withHeader(frame: Buffer, { header, as }: { readonly header: string; readonly as: string }): Buffer {
  const at = frame.readUInt8() === CONTENT_HEADER ? frame.indexOf(shortString(header)) : -1
  if (at >= 0) frame.write(as, at + 1)
  return frame
}

/** Reply code, reply text, and no method that it was about. */
function closing(code: number, reason: string): Buffer {
  return Buffer.concat([Buffer.from([code >> 8, code & 0xff]), shortString(reason), Buffer.alloc(4)])
}

function shortString(text: string): Buffer {
  return Buffer.concat([Buffer.from([Buffer.byteLength(text)]), Buffer.from(text)])
}

function isAck(frame: Buffer): boolean {
  return isMethod(frame, BASIC_ACK)
}
