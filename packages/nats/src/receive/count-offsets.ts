const REMEMBERED = 10_000

/**
 * How the deliveries that count differ from those that JetStream has counted, for messages that wait for a retry in the stream: the consumer
 * has counted attempts of which JetStream does not know, and JetStream counts returns that are no attempts.
 */
export class CountOffsets {
  readonly #offsets = new Map<number, number>()

  set(sequence: number, offset: number): void {
    this.#offsets.delete(sequence)
    if (offset === 0) return
    this.#offsets.set(sequence, offset)
    const [oldest] = this.#offsets.keys()
    if (this.#offsets.size > REMEMBERED) this.#offsets.delete(oldest!)
  }

  /** @param counted the deliveries that JetStream has counted: with the first one, the stream is another one of the same name. */
  of(sequence: number, counted: number): number {
    return counted === 1 ? 0 : (this.#offsets.get(sequence) ?? 0)
  }
}
