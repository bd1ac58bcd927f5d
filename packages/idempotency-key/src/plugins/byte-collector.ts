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
