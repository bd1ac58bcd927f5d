import { decodeHeaders, type BacklogMessage } from '@txbox/core'

/** Signature, flags and the length of what else there is: https://www.postgresql.org/docs/current/sql-copy.html */
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1')
const HEADER_BYTES = SIGNATURE.length + 8

/** Instants are microseconds from the start of the year 2000. */
const EPOCH_MS = Date.UTC(2000, 0, 1)

/** Fields that most messages have in common. */
interface Shared {
  readonly bytes: Buffer
  readonly topic: string
  readonly type: string | undefined
  readonly contentType: string
  readonly headers: string
}

/** Messages from the rows of a COPY in PostgreSQL's binary format, as `relayStatements` asks for them. */
export class CopiedMessages {
  readonly messages: BacklogMessage[] = []
  /** The payload of one was only measured: it is not among the messages. */
  hasLarge = false
  readonly #shard: number
  #bytes: Buffer = SIGNATURE
  #at = 0
  #begun = false
  #shared: Shared | undefined

  constructor(shard: number) {
    this.#shard = shard
  }

  /** What comes with one message of the protocol: a row, or the end; the first has the header before it. */
  add(bytes: Buffer): void {
    this.#bytes = bytes
    this.#at = 0
    if (!this.#begun) this.#header()
    // Minus one is the end.
    if (this.#at < bytes.length && this.#fields() > 0) this.#row()
  }

  #header(): void {
    if (!SIGNATURE.equals(this.#bytes.subarray(0, SIGNATURE.length))) {
      throw new TypeError('The answer to COPY does not begin as the binary format does.')
    }
    this.#at = HEADER_BYTES + this.#bytes.readInt32BE(HEADER_BYTES - 4)
    this.#begun = true
  }

  #row(): void {
    this.#at += 4
    const seq = this.#bytes.readBigInt64BE(this.#at)
    this.#at += 12
    const createdAt = new Date(EPOCH_MS + Math.floor(Number(this.#bytes.readBigInt64BE(this.#at)) / 1000))
    this.#at += 12
    const address = `(${this.#bytes.readUInt32BE(this.#at)},${this.#bytes.readUInt16BE(this.#at + 4)})`
    this.#at += 6
    const { topic, type, contentType, headers } = this.#commonFields()
    const id = this.#text()!
    const key = this.#text()
    const correlationId = this.#text()
    const blocked = this.#text() !== undefined
    this.#skip()
    const payload = this.#payload()
    if (payload === undefined) {
      this.hasLarge = true
      return
    }
    this.messages.push({
      seq,
      address,
      shard: this.#shard,
      id,
      topic,
      key,
      type,
      contentType,
      ...decodeHeaders(headers),
      correlationId,
      createdAt,
      payload,
      attempts: 0,
      ordered: key !== undefined,
      blocked,
    })
  }

  /** Those of the last message, when their bytes are the same. */
  #commonFields(): Shared {
    const start = this.#at
    for (let n = 0; n < 4; n++) this.#skip()
    const end = this.#at
    const last = this.#shared
    if (
      last?.bytes.length === end - start &&
      this.#bytes.compare(last.bytes, 0, end - start, start, end) === 0
    ) {
      return last
    }
    this.#at = start
    const [topic, type, contentType, headers] = [this.#text(), this.#text(), this.#text(), this.#text()]
    const bytes = Buffer.from(this.#bytes.subarray(start, end))
    this.#shared = { bytes, topic: topic!, type, contentType: contentType!, headers: headers! }
    return this.#shared
  }

  /** A copy: the driver uses its memory again. */
  #payload(): Buffer | undefined {
    const length = this.#length()
    if (length < 0) return undefined
    const payload = Buffer.allocUnsafe(length)
    this.#bytes.copy(payload, 0, this.#at, (this.#at += length))
    return payload
  }

  #text(): string | undefined {
    const length = this.#length()
    return length < 0 ? undefined : this.#bytes.toString('utf8', this.#at, (this.#at += length))
  }

  #skip(): void {
    const length = this.#length()
    if (length > 0) this.#at += length
  }

  #fields(): number {
    const fields = this.#bytes.readInt16BE(this.#at)
    this.#at += 2
    return fields
  }

  /** Of the field that follows; -1 is null. */
  #length(): number {
    const length = this.#bytes.readInt32BE(this.#at)
    this.#at += 4
    return length
  }
}
