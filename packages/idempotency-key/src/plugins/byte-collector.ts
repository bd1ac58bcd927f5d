/** Takes the bytes of a stream, in the order in which it gives them. */
export class ByteCollector {
  readonly #chunks: Uint8Array[] = []
  readonly #maxBytes: number
  #length = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @returns false when there are more bytes than the limit. The first byte beyond it is kept, so that its length shows it. */
  add(chunk: Uint8Array | string): boolean {
    const bytes = typeof chunk === 'string' ? Buffer.from(chunk) : chunk
    const room = this.#maxBytes + 1 - this.#length
    if (room > 0) this.#chunks.push(bytes.subarray(0, room))
    this.#length += bytes.byteLength
    return this.#length <= this.#maxBytes
  }

  get bytes(): Buffer<ArrayBuffer> {
    return Buffer.concat(this.#chunks)
  }
}

/** Reads a stream up to one byte beyond the limit, and then gives it up. */
export async function collectBody(
  stream: AsyncIterable<Uint8Array | string>,
  maxBytes: number,
): Promise<Buffer<ArrayBuffer>> {
  const collector = new ByteCollector(maxBytes)
  const iterator = stream[Symbol.asyncIterator]()
  for (;;) {
    const next = await iterator.next()
    if (next.done === true) return collector.bytes
    if (collector.add(next.value)) continue
    // Half of a cloned body waits for the other half, so nobody waits for this one.
    iterator.return?.().catch(() => undefined)
    return collector.bytes
  }
}
