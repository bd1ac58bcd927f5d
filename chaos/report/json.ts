import { CHECKS } from '../check/violation.ts'
import type { RunResult } from '../driver/finish.ts'
import { faultCounts } from './table.ts'

const MOST_VIOLATIONS = 20

/** The report as JSON: all figures of the table, and the timeline. */
export function toJson(result: RunResult): string {
  const { options, first } = result
  const report = {
    verdict: first === undefined ? 'no violation' : 'violation',
    database: options.database,
    seed: options.seed,
    minutes: options.minutes,
    plant: options.plant?.name,
    kinds: options.faults,
    relays: result.settings,
    startedAt: new Date(result.startedAtMs).toISOString(),
    durationMs: result.durationMs,
    foundAfterMs: result.foundAfterMs,
    steps: result.steps,
    faults: Object.fromEntries(faultCounts(result)),
    figures: result.figures,
    checks: result.verdicts.map(({ check, looked, violations }) => ({
      check,
      means: CHECKS[check],
      looked,
      violations: violations.length,
      first: violations.slice(0, MOST_VIOLATIONS),
    })),
    first,
    history: result.history,
    workers: Object.fromEntries(result.workers),
    events: result.events,
    samples: result.samples,
  }
  return `${JSON.stringify(report, undefined, 2)}\n`
}
