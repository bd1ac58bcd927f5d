import type { BenchOptions, SuiteName } from './arguments.ts'
import { interleavedRates, type Rates, type Variant } from './measure/interleaved-rates.ts'
import { ratioOf } from './measure/statistics.ts'
import { formatRates, ratesBeside, type VariantTitle } from './report/rates-table.ts'
import { whole } from './report/table.ts'
import type { Target } from './report/target.ts'
import type { Suite } from './suite.ts'

/** The load during a measurement. */
export interface Load {
  readonly clients: number
  /** The number of claims that the inbox contains before the measurement. */
  readonly oldClaims: number
}

/** The variants of a suite, with fresh tables and open connections. */
export interface Prepared<N extends string> {
  readonly variants: readonly (Variant & { readonly name: N })[]
  /**
   * Checks that the tables contain all work of the rounds: a variant that skipped a part of its work would look fast.
   *
   * @throws {Error} when a part of the work is missing.
   */
  assertWorkDone(name: N, transactions: number): Promise<void>
  close(): Promise<void>
}

/** The part of a suite of transaction rates that differs between databases. */
export interface RatesSuite<N extends string> {
  readonly titles: Readonly<Record<N, VariantTitle<N>>>
  readonly targets: readonly RateTarget<N>[]
  prepare(load: Load): Promise<Prepared<N>>
}

interface RateTarget<N extends string> {
  readonly what: string
  readonly ours: N
  readonly other: N
  /** txbox costs at most this many times as much as the other variant, or has at least this share of its rate. */
  readonly bound: { readonly atMost: number } | { readonly atLeast: number }
}

/** Compares the inbox with the same claim by hand, and with no inbox. */
export function inboxSuite<N extends string>(suite: RatesSuite<N | 'bare'>): Suite {
  return ratesSuite('inbox', suite, (load) => {
    return `one update of one row in a transaction, ${clientsOf(load)}, ${whole(load.oldClaims)} old claims`
  })
}

/** Compares `outbox.publish` with an INSERT by hand, and with no message. */
export function publishSuite<N extends string>(suite: RatesSuite<N | 'bare'>): Suite {
  return ratesSuite('publish', suite, (load) => {
    return `one update of one row and one message of 500 bytes in a transaction, ${clientsOf(load)}`
  })
}

/** Compares `outbox.publish` with deduplication on a table of many remembered ids and on a table of few. */
export function deduplicationSuite<N extends string>(suite: RatesSuite<N | 'bare'>): Suite {
  return ratesSuite('deduplication', suite, (load) => {
    return `the same with deduplication, ${clientsOf(load)}, ${whole(load.oldClaims)} old ids where there are many`
  })
}

function ratesSuite<N extends string>(
  name: SuiteName,
  suite: RatesSuite<N | 'bare'>,
  heading: (load: Load) => string,
): Suite {
  return {
    name,
    async run(options) {
      const [first, ...more] = loadsOf(name, options)
      const run = async (load: Load): Promise<Readonly<Record<N | 'bare', Rates>>> => {
        console.log(`\n${name}: ${heading(load)}`)
        const measured = await measure(suite, options, load)
        console.log(formatRates<N | 'bare'>(suite.titles, measured))
        return measured
      }
      const measured = await run(first)
      for (const load of more) await run(load)
      return suite.targets.map((target) => targetOf(target, measured))
    },
  }
}

/** The first load is the one that has targets. */
function loadsOf(name: SuiteName, { full }: BenchOptions): readonly [Load, ...Load[]] {
  if (name === 'deduplication') return [{ clients: 1, oldClaims: full ? 10_000_000 : 1_000_000 }]
  const first = { clients: 1, oldClaims: 0 }
  if (!full) return [first]
  const claims = name === 'inbox' ? [0, 1_000_000] : [0]
  const all = claims.flatMap((oldClaims) => [1, 4, 16].map((clients) => ({ clients, oldClaims })))
  return [first, ...all.slice(1)]
}

async function measure<N extends string>(
  suite: RatesSuite<N>,
  options: BenchOptions,
  load: Load,
): Promise<Readonly<Record<N, Rates>>> {
  const prepared = await suite.prepare(load)
  const measured = await interleavedRates(prepared.variants, { ...options, clients: load.clients })
  for (const { name } of prepared.variants) await prepared.assertWorkDone(name, measured[name].transactions)
  await prepared.close()
  return measured
}

function targetOf<N extends string>(
  { what, ours, other, bound }: RateTarget<N>,
  measured: Readonly<Record<N, Rates>>,
): Target {
  const [ownRates, otherRates] = [measured[ours].perRound, measured[other].perRound]
  const isCost = 'atMost' in bound
  return {
    what,
    bound,
    ratio: isCost ? ratioOf(otherRates, ownRates) : ratioOf(ownRates, otherRates),
    figures: ratesBeside(ownRates, isCost ? 'by hand' : other, otherRates),
  }
}

function clientsOf({ clients }: Load): string {
  return `${clients} client${clients === 1 ? '' : 's'} (pools of ${clients})`
}
