import { runChaos, type RunOptions } from './driver/chaos-run.ts'
import type { RunResult } from './driver/finish.ts'
import type { FaultName } from './faults/fault-names.ts'

/** How much longer than the failing run a try may take, in minutes: timing differs from run to run. */
const SPARE_MINUTES = 0.5

/**
 * Repeats a failing run with fewer kinds of faults: leaves out half of the kinds, then smaller parts, as long as the run
 * still fails. The faults that stay keep their steps and their parameters.
 */
export async function shrink(options: RunOptions, failed: RunResult): Promise<readonly FaultName[]> {
  const seen = new Set(failed.events.filter(({ kind }) => kind === 'fault').map(({ name }) => name))
  let kinds = options.faults.filter((name) => seen.has(name))
  const minutes = Math.min(options.minutes, failed.durationMs / 60_000 + SPARE_MINUTES)
  for (let parts = 2; kinds.length > 1;) {
    const size = Math.ceil(kinds.length / parts)
    let isSmaller = false
    for (let from = 0; from < kinds.length && !isSmaller; from += size) {
      const fewer = kinds.filter((_, index) => index < from || index >= from + size)
      if (fewer.length === 0) continue
      const without = new Set(options.faults.filter((name) => !fewer.includes(name)))
      console.log(`Shrinking: with ${fewer.join(', ')} only`)
      const { first } = await runChaos({ ...options, minutes, without, tell: () => undefined })
      console.log(first === undefined ? '  no violation' : `  ${first.text}`)
      if (first?.check !== failed.first?.check) continue
      kinds = fewer
      isSmaller = true
    }
    if (isSmaller) parts = 2
    else if (size === 1) break
    else parts *= 2
  }
  console.log(`The run still fails with: ${kinds.join(', ')}.`)
  console.log(
    `npm run chaos -- --database ${options.database} --seed ${options.seed} --minutes ${minutes.toFixed(1)}` +
      ` --faults ${options.faults.join(',')} --without ${options.faults.filter((name) => !kinds.includes(name)).join(',')}`,
  )
  return kinds
}
