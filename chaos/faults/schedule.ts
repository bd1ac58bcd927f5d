import { Draw } from '../draw.ts'
import type { FaultName } from './fault-names.ts'
import { FAULTS } from './faults.ts'

/** One step of a run: one fault, or two at the same time; then a quiet time. */
export interface Step {
  readonly number: number
  readonly faults: readonly { readonly name: FaultName; readonly draw: Draw }[]
}

const TOGETHER = 0.3

/**
 * The step with this number. Depends on the seed, the number and the kinds only, never on the clock or on the results of
 * earlier steps.
 *
 * @param without kinds that are left out; the other faults stay the same.
 */
export function stepAt(
  seed: number,
  number: number,
  names: readonly FaultName[],
  without: ReadonlySet<FaultName> = new Set(),
): Step {
  const draw = new Draw(`${seed} step ${number}`)
  const first = drawFault(draw, names)
  const second = draw.chance(TOGETHER) ? drawFault(draw, names) : undefined
  const drawn = second === undefined || exclude(first, second) ? [first] : [first, second]
  return {
    number,
    faults: drawn
      .filter((name) => !without.has(name))
      .map((name) => ({ name, draw: new Draw(`${seed} step ${number} ${name}`) })),
  }
}

function drawFault(draw: Draw, names: readonly FaultName[]): FaultName {
  const weightOf = (name: FaultName): number => FAULTS[name].weight ?? 1
  let left = draw.next() * names.reduce((sum, name) => sum + weightOf(name), 0)
  return names.find((name) => (left -= weightOf(name)) < 0) ?? names.at(-1)!
}

/** Faults that need SQL on the primary cannot run during a failover. */
const BY_SQL: ReadonlySet<FaultName> = new Set([
  'long-transaction',
  'backends-terminated',
  'poison-relay',
  'locked-table',
  'table-rewritten',
  'settlement-delayed',
])

function exclude(first: FaultName, second: FaultName): boolean {
  const pair = [first, second]
  const groups = pair.map((name) => FAULTS[name].group)
  if (first === second || (groups[0] !== undefined && groups[0] === groups[1])) return true
  if (groups.includes('server') && pair.some((name) => BY_SQL.has(name))) return true
  // Both silence the broker, and each would end the silence of the other.
  return pair.includes('failover-in-flight') && groups.includes('broker')
}
