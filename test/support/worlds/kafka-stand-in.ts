import net from 'node:net'
import { Reader, Writer, readRecordsBatch, type KafkaRecord } from '@platformatic/kafka'

/** The answer for the records of a partition. */
export interface GivenAnswer {
  readonly code: number
  readonly text?: string
  /** The records that are named as culprits, by their place in the batch. */
  readonly culprits?: readonly (readonly [number, string])[]
}

/** The records of one partition in one request. */
export interface ReceivedBatch {
  readonly topic: string
  readonly partition: number
  readonly records: readonly KafkaRecord[]
}

/** The answer to a login. */
export interface LoginAnswer {
  readonly code?: number
  /** What a mechanism says, such as why a token is refused. */
  readonly says?: string
  /** After this time the client must log in again. */
  readonly lifetimeMs?: number
}

const [PRODUCE, METADATA, SASL_HANDSHAKE, API_VERSIONS, INIT_PRODUCER_ID, SASL_AUTHENTICATE] = [
  0, 3, 17, 18, 22, 36,
]
/** The version of each request that this broker speaks. A client that logs in asks for the versions by version 1. */
const VERSIONS = [
  [PRODUCE, 11],
  [METADATA, 12],
  [SASL_HANDSHAKE, 1],
  [API_VERSIONS, 3],
  [INIT_PRODUCER_ID, 4],
  [SASL_AUTHENTICATE, 2],
] as const

/**
 * Speaks as much of Kafka's protocol as a producer needs, and answers what a test wants: for codes that a real broker gives only when
 * its cluster is in trouble. Every topic has as many partitions.
 */
export class KafkaStandIn {
  /** What was received, also what was refused. */
  readonly received: ReceivedBatch[] = []
  /** The code of the metadata of a topic. */
  metadataCode: (topic: string) => number = () => 0
  initProducerCode = 0
  /** The number of partitions of every topic. */
  partitions = 3
  /** The brokers of the cluster, whose ids are their places from 1 on. */
  cluster: readonly KafkaStandIn[] = [this]
  /** The id of the leader of a partition; -1 for none. */
  leader: (topic: string, partition: number) => number = () => 1
  /** How often metadata of topics were asked for. */
  lookups = 0
  /** How often clients have logged in. */
  logins = 0
  /** Answers a login, or resets its connection. */
  login: () => LoginAnswer | 'reset' = () => ({})
  /** The requests to produce. */
  requests = 0
  /** How many replicas must store the records, by request: -1 stands for all in sync. */
  readonly acks: number[] = []
  /** What the next answers to such requests wait for. */
  gate: Promise<unknown> = Promise.resolve()
  answer: (batch: ReceivedBatch) => GivenAnswer = () => ({ code: 0 })
  readonly #server = net.createServer((socket) => this.#connect(socket))
  readonly #sockets = new Set<net.Socket>()
  #port = 0

  static async start(): Promise<KafkaStandIn> {
    const broker = new KafkaStandIn()
    await new Promise<void>((resolve) => broker.#server.listen(0, '127.0.0.1', resolve))
    broker.#port = (broker.#server.address() as net.AddressInfo).port
    return broker
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`
  }

  /** The number of open connections. */
  get connections(): number {
    return this.#sockets.size
  }

  /** Reads nothing until `resume`, so that clients keep in their buffers what they send. */
  pause(): void {
    for (const socket of this.#sockets) socket.pause()
  }

  resume(): void {
    for (const socket of this.#sockets) socket.resume()
  }

  /** Breaks all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #connect(socket: net.Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => this.#sockets.delete(socket))
    let chunks: Buffer[] = []
    let length = 0
    socket.on('data', (bytes) => {
      chunks.push(bytes)
      length += bytes.length
      while (length >= 4) {
        // Large requests come in hundreds of pieces, which are put together once.
        if (chunks[0]!.length < 4) chunks = [Buffer.concat(chunks)]
        const end = 4 + chunks[0]!.readInt32BE(0)
        if (length < end) return
        const all = Buffer.concat(chunks)
        chunks = length === end ? [] : [all.subarray(end)]
        length -= end
        this.#answerRequest(socket, Reader.from(all.subarray(4, end)))
      }
    })
  }

  #answerRequest(socket: net.Socket, request: Reader): void {
    const api = request.readInt16()
    const version = request.readInt16()
    const correlationId = request.readInt32()
    request.readNullableString(false)
    const answer = Writer.create().appendInt32(correlationId)
    if (api === SASL_HANDSHAKE || (api === API_VERSIONS && version < 3)) {
      if (api === SASL_HANDSHAKE) answer.appendInt16(0).appendArray([], () => undefined, false, false)
      else apiVersions(answer, false)
      socket.write(answer.prependLength().buffer)
      return
    }
    request.readTaggedFields()
    if (api !== API_VERSIONS) answer.appendTaggedFields()
    if (api === PRODUCE) this.#produce(request, answer)
    else if (api === METADATA) this.#metadata(request, answer)
    else if (api === API_VERSIONS) apiVersions(answer, true)
    else if (api === SASL_AUTHENTICATE) {
      this.logins += 1
      const login = this.login()
      if (login === 'reset') {
        socket.resetAndDestroy()
        return
      }
      const { code = 0, says = '', lifetimeMs = 0 } = login
      answer.appendInt16(code).appendString(code === 0 ? null : 'refused')
      answer.appendBytes(Buffer.from(says)).appendInt64(BigInt(lifetimeMs))
    } else answer.appendInt32(0).appendInt16(this.initProducerCode).appendInt64(7n).appendInt16(0)
    answer.appendTaggedFields().prependLength()
    if (api !== PRODUCE) socket.write(answer.buffer)
    else void this.gate.then(() => socket.write(answer.buffer))
  }

  #metadata(request: Reader, answer: Writer): void {
    const topics = request.readArray((each) => {
      each.readUUID()
      return each.readString()
    })
    this.lookups += topics.length
    answer
      .appendInt32(0)
      .appendArray([...this.cluster.entries()], (w, [n, broker]) =>
        w
          .appendInt32(n + 1)
          .appendString('127.0.0.1')
          .appendInt32(broker.#port)
          .appendString(null),
      )
      .appendString('stand-in')
      .appendInt32(1)
      .appendArray(topics, (w, topic) => {
        w.appendInt16(this.metadataCode(topic)).appendString(topic).appendUUID(null).appendBoolean(false)
        w.appendArray([...Array(this.partitions).keys()], (each, index) => {
          const leader = this.leader(topic, index)
          each
            .appendInt16(leader < 0 ? 5 : 0)
            .appendInt32(index)
            .appendInt32(leader)
            .appendInt32(0)
          for (const nodes of [[1], [1], []])
            each.appendArray(nodes, (n, id) => n.appendInt32(id), true, false)
        }).appendInt32(0)
      })
  }

  #produce(request: Reader, answer: Writer): void {
    this.requests += 1
    request.readNullableString()
    this.acks.push(request.readInt16())
    request.readInt32()
    const topics = request.readArray((each) => ({
      topic: each.readString(),
      partitions: each.readArray((part) => {
        const partition = part.readInt32()
        return { partition, records: readRecordsBatch(Reader.from(part.readBytes())).records }
      }),
    }))
    answer.appendArray(topics, (w, { topic, partitions }) =>
      w.appendString(topic).appendArray(partitions, (each, { partition, records }) => {
        const batch = { topic, partition, records }
        this.received.push(batch)
        const { code, text, culprits = [] } = this.answer(batch)
        each.appendInt32(partition).appendInt16(code)
        each.appendInt64(0n).appendInt64(-1n).appendInt64(0n)
        each.appendArray([...culprits], (c, [index, own]) => c.appendInt32(index).appendString(own))
        each.appendString(text ?? null)
      }),
    )
    answer.appendInt32(0)
  }
}

function apiVersions(answer: Writer, isCompact: boolean): void {
  answer.appendInt16(0).appendArray(
    [...VERSIONS],
    (w, [api, version]) => {
      w.appendInt16(api).appendInt16(version).appendInt16(version)
    },
    isCompact,
    isCompact,
  )
  answer.appendInt32(0)
}
