import type { Summary } from '../measure/statistics.ts'
import { formatTable, ratioSpread } from './table.ts'

/** A target, and the figure that was measured for it. */
export interface Target {
  readonly what: string
  readonly bound: { readonly atLeast: number } | { readonly atMost: number }
  readonly ratio: Summary
  /** The absolute figures behind the ratio. */
  readonly figures: string
}

export function isMet({ bound, ratio }: Target): boolean {
  return 'atLeast' in bound ? ratio.median >= bound.atLeast : ratio.median <= bound.atMost
}

export function formatTargets(targets: readonly Target[]): string {
  return formatTable(
    ['target', 'bound', 'measured (min–max)', 'met', 'figures'],
    targets.map((target) => [
      target.what,
      'atLeast' in target.bound ? `≥ ${target.bound.atLeast}` : `≤ ${target.bound.atMost}`,
      ratioSpread(target.ratio),
      isMet(target) ? 'yes' : 'NO',
      target.figures,
    ]),
  )
}
