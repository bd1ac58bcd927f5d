import { createHash } from 'node:crypto'

/** Random numbers that depend on a text only: the same text draws the same numbers on every machine. */
export class Draw {
  #state: number

  constructor(text: string) {
    this.#state = createHash('sha256').update(text).digest().readUInt32LE(0)
  }

  /** From 0 (inclusive) to 1 (exclusive); the generator is mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let t = this.#state
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }

  /** An integer; both bounds are included. */
  integer(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  pick<T>(list: readonly T[]): T {
    return list[this.integer(0, list.length - 1)]!
  }

  chance(probability: number): boolean {
    return this.next() < probability
  }

  shuffled<T>(list: readonly T[]): T[] {
    return list
      .map((one) => ({ one, at: this.next() }))
      .toSorted((a, b) => a.at - b.at)
      .map(({ one }) => one)
  }
}
