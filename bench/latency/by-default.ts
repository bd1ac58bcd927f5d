import { orderOfTurn } from '../measure/rotation.ts'
import { percentile, summarise } from '../measure/statistics.ts'
import { formatTable } from '../report/table.ts'
import type { Target } from '../report/target.ts'
import { measureWaiter, type WaiterFigures } from './measure-waiter.ts'
import type { Waiter } from './waiter.ts'

const MESSAGES_PER_SECOND = 100

/** The targets, in milliseconds and percent of a core. */
export interface LatencyTargets {
  readonly firstP50: number
  readonly firstP99?: number
  readonly steadyP50?: number
  readonly idle: number
}

/** Measures what nobody configured: the peers have no targets. */
export async function latencyByDefault(
  { waiters, peers }: { readonly waiters: readonly Waiter[]; readonly peers: readonly Waiter[] },
  { rounds, seconds }: { readonly rounds: number; readonly seconds: number },
  targets: LatencyTargets,
): Promise<readonly Target[]> {
  const measured = new Map<Waiter, WaiterFigures>(
    [...waiters, ...peers].map((waiter) => [waiter, { first: [], steady: [], idle: [] }]),
  )
  console.log(
    `\nlatency with nothing configured: from the answer to COMMIT to the handler, after 5 s of silence, and at ` +
      `${MESSAGES_PER_SECOND} messages a second with random gaps, ${rounds} rounds; CPU of the process while nothing happens`,
  )
  for (let round = 0; round < rounds; round++) {
    for (const [waiter, figures] of orderOfTurn([...measured], round)) {
      await measureWaiter(waiter, { messagesPerSecond: MESSAGES_PER_SECOND, seconds }, figures)
    }
  }
  console.log(tableOf(measured))
  return waiters.flatMap((waiter) => targetsOf(waiter, measured.get(waiter)!, targets))
}

function tableOf(measured: ReadonlyMap<Waiter, WaiterFigures>): string {
  const ms = (samples: readonly number[], percent: number): string => percentile(samples, percent).toFixed(2)
  return formatTable(
    ['', 'first p50 ms', 'first p99 ms', 'steady p50 ms', 'steady p99 ms', 'idle % of a core'],
    [...measured].map(([{ name }, { first, steady, idle }]) => [
      name,
      ms(first, 50),
      ms(first, 99),
      ms(steady, 50),
      ms(steady, 99),
      (100 * percentile(idle, 50)).toFixed(2),
    ]),
  )
}

function targetsOf({ name }: Waiter, figures: WaiterFigures, targets: LatencyTargets): readonly Target[] {
  const of = (what: string, atMost: number | undefined, value: number): readonly Target[] =>
    atMost === undefined
      ? []
      : [
          {
            what: `latency by default, ${name}: ${what}`,
            bound: { atMost },
            ratio: summarise([value]),
            figures: `${figures.first.length} silences, ${figures.steady.length} messages at a steady rate`,
          },
        ]
  return [
    ...of('first message, p50 in ms', targets.firstP50, percentile(figures.first, 50)),
    ...of('first message, p99 in ms', targets.firstP99, percentile(figures.first, 99)),
    ...of('steady, p50 in ms', targets.steadyP50, percentile(figures.steady, 50)),
    ...of('idle, % of a core', targets.idle, 100 * percentile(figures.idle, 50)),
  ]
}
