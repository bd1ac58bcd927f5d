import { createHash } from 'node:crypto'
import { randomFrom } from '../test/support/worlds/random.ts'

/** Random numbers that depend on a text only: the same text draws the same numbers on every machine. */
export class Draw {
  /** Returns a number from 0 (inclusive) to 1 (exclusive). */
  readonly next: () => number

  constructor(text: string) {
    this.next = randomFrom(createHash('sha256').update(text).digest().readUInt32LE(0))
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
