/*
 * Only PostgreSQL copies rows out in binary; measured: a SELECT reaches 0.78 of the rate of a drain, with 1.42 times
 * the CPU time (docs/decisions/0011).
 */
import { decodeHeaders } from '@txbox/core/internal'
import { GREATEST_STAMP, LEAST_STAMP } from '@txbox/sql/stores'
import type { LocatedMessage } from './backlog-message.ts'
import { EPOCH_US } from '../connection/integer-arrays.ts'

/** Signature, flags and the length of the header extension: https://www.postgresql.org/docs/current/sql-copy.html */
const SIGNATURE = Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1')
const HEADER_BYTES = SIGNATURE.length + 8

/** Fields that are the same in most messages. */
interface Shared {
  readonly bytes: Buffer
  readonly topic: string
  readonly type: string | undefined
  readonly contentType: string
  readonly headers: string
}

/**
 * Decodes messages from the rows of a COPY in PostgreSQL's binary format, as `relayStatements` reads them.
 */
export class CopiedMessages {
  readonly messages: LocatedMessage[] = []
  /** Whether the payload of at least one message was only measured. Such a message is not in the result. */
  hasLarge = false
  readonly #shard: number
  #bytes: Buffer = SIGNATURE
  #at = 0
  #begun = false
  #shared: Shared | undefined

  constructor(shard: number) {
    this.#shard = shard
  }

  /** Adds one message of the protocol: a row, or the end. The first message begins with the header. */
  add(bytes: Buffer): void {
    this.#bytes = bytes
    this.#at = 0
    if (!this.#begun) this.#header()
    // A field count of -1 marks the end.
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
    const seq = this.#integer()
    const microseconds = Number(EPOCH_US + this.#integer())
    const address = this.#address()
    const { topic, type, contentType, headers } = this.#sharedFields()
    const id = this.#text()!
    const key = this.#text()
    const correlationId = this.#text()
    const traceContext = this.#text()
    const blocked = this.#text() !== undefined
    this.#skip()
    const payload = this.#payload()
    if (payload === undefined) {
      this.hasLarge = true
      return
    }
    const decoded = decodeHeaders(headers, traceContext)
    this.messages.push({
      seq,
      stamp: Math.min(Math.max(microseconds, LEAST_STAMP), GREATEST_STAMP),
      address,
      shard: this.#shard,
      id,
      topic,
      key,
      type,
      contentType,
      headers: decoded.headers,
      correlationId,
      createdAt: new Date(Math.floor(microseconds / 1000)),
      payload,
      attempts: 0,
      errors: undefined,
      ordered: key !== undefined,
      blocked,
      undecodable: decoded.undecodable,
    })
  }

  /** Returns the fields of the previous message if their bytes are the same. */
  #sharedFields(): Shared {
    const last = this.#shared
    if (last !== undefined && this.#startsWith(last.bytes)) {
      this.#at += last.bytes.length
      return last
    }
    const start = this.#at
    const [topic, type, contentType, headers] = [this.#text(), this.#text(), this.#text(), this.#text()]
    const bytes = Buffer.from(this.#bytes.subarray(start, this.#at))
    this.#shared = { bytes, topic: topic!, type, contentType: contentType!, headers: headers! }
    return this.#shared
  }

  /** Returns whether the next bytes equal `expected`. For so few bytes, a loop is cheaper than a method of Buffer. */
  #startsWith(expected: Buffer): boolean {
    const [bytes, start] = [this.#bytes, this.#at]
    for (let n = 0; n < expected.length; n++) if (bytes[start + n] !== expected[n]) return false
    return true
  }

  #integer(): bigint {
    const at = this.#at + 4
    this.#at += 12
    // Reading a number is several times cheaper than combining two halves as bigints.
    const number = this.#bytes.readInt32BE(at) * 0x1_0000_0000 + this.#bytes.readUInt32BE(at + 4)
    return Number.isSafeInteger(number) ? BigInt(number) : this.#bytes.readBigInt64BE(at)
  }

  #address(): number {
    const at = this.#at + 4
    this.#at += 10
    return this.#bytes.readUInt32BE(at) * 0x1_0000 + this.#bytes.readUInt16BE(at + 4)
  }

  /** Returns a copy, because the driver reuses the memory of the bytes. */
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

  /** The length of the next field; -1 means null. */
  #length(): number {
    const length = this.#bytes.readInt32BE(this.#at)
    this.#at += 4
    return length
  }
}
