import type { Rates } from '../measure/interleaved-rates.ts'
import { ratioOf, summarise } from '../measure/statistics.ts'
import { formatTable, ratioSpread, whole, wholeSpread } from './table.ts'

/** The title of a variant, and the variant that does the same work by hand. */
export interface VariantTitle<N extends string> {
  readonly title: string
  readonly byHand?: N
}

/** Compares rates with those of the bare transaction, and costs with those of the same work by hand. */
export function formatRates<N extends string>(
  titles: Readonly<Record<N, VariantTitle<N>>>,
  measured: Readonly<Record<N | 'bare', Rates>>,
): string {
  return formatTable(
    ['', 'transactions/s (min–max)', 'rate ÷ bare (min–max)', 'cost ÷ by hand (min–max)'],
    (Object.keys(titles) as N[]).map((name) => {
      const { title, byHand } = titles[name]
      const rates = measured[name].perRound
      return [
        title,
        wholeSpread(summarise(rates)),
        ratioSpread(ratioOf(rates, measured.bare.perRound)),
        byHand === undefined ? '' : ratioSpread(ratioOf(measured[byHand].perRound, rates)),
      ]
    }),
  )
}

/** The median rates of two variants, printed beside their ratio. */
export function ratesBeside(ours: readonly number[], word: string, others: readonly number[]): string {
  return `${whole(summarise(ours).median)} vs ${word} ${whole(summarise(others).median)} a second`
}
