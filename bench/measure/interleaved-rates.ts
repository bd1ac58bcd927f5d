import { orderOfTurn } from './rotation.ts'

/** Short enough that a disturbance of 100 ms affects all variants, and long enough for dozens of transactions. */
const SLICE_MS = 25

/** One of the compared ways to do the work. */
export interface Variant {
  readonly name: string
  /** Runs one transaction. All measured clients call it concurrently. */
  readonly transaction: () => Promise<void>
}

export interface RateOptions {
  readonly rounds: number
  readonly secondsPerRound: number
  readonly clients: number
}

/** The results of one variant. */
export interface Rates {
  /** Transactions per second, one figure for each round. */
  readonly perRound: readonly number[]
  /** Microseconds of CPU time that this process took for a transaction, one figure for each round. */
  readonly cpuPerRound: readonly number[]
  /** The number of all transactions, including the warm-up, which the tables must contain afterwards. */
  readonly transactions: number
}

/**
 * Measures variants side by side. In each round every variant works for `secondsPerRound`, cut into slices that take
 * turns with those of the others: A B C C B A B C A …
 */
export async function interleavedRates<N extends string>(
  variants: readonly (Variant & { readonly name: N })[],
  { rounds, secondsPerRound, clients }: RateOptions,
): Promise<Readonly<Record<N, Rates>>> {
  const tallies = variants.map((variant) => new Tally(variant))
  const turns = Math.max(1, Math.round((secondsPerRound * 1000) / SLICE_MS))
  const sliceMs = (secondsPerRound * 1000) / turns
  for (let round = -1; round < rounds; round++) {
    for (let turn = 0; turn < turns; turn++) {
      for (const tally of orderOfTurn(tallies, round + 1 + turn)) await tally.slice(sliceMs, clients)
    }
    for (const tally of tallies) tally.endRound()
  }
  // The first round is the warm-up: compiled code, open connections, filled caches.
  return Object.fromEntries(
    tallies.map(({ variant, rates, cpu, transactions }) => [
      variant.name,
      { perRound: rates.slice(1), cpuPerRound: cpu.slice(1), transactions },
    ]),
  ) as unknown as Record<N, Rates>
}

class Tally {
  readonly variant: Variant
  readonly rates: number[] = []
  readonly cpu: number[] = []
  transactions = 0
  #inRound = 0
  #elapsedMs = 0
  #cpuMicros = 0

  constructor(variant: Variant) {
    this.variant = variant
  }

  async slice(ms: number, clients: number): Promise<void> {
    const startedAt = performance.now()
    const cpu = process.cpuUsage()
    const endsAt = startedAt + ms
    const client = async (): Promise<void> => {
      while (performance.now() < endsAt) {
        await this.variant.transaction()
        this.#inRound++
      }
    }
    await Promise.all(Array.from({ length: clients }, client))
    this.#elapsedMs += performance.now() - startedAt
    const { user, system } = process.cpuUsage(cpu)
    this.#cpuMicros += user + system
  }

  endRound(): void {
    this.rates.push((this.#inRound / this.#elapsedMs) * 1000)
    this.cpu.push(this.#cpuMicros / this.#inRound)
    this.transactions += this.#inRound
    this.#inRound = 0
    this.#elapsedMs = 0
    this.#cpuMicros = 0
  }
}
