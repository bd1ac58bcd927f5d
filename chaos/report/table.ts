import { CHECKS, type Verdict } from '../check/violation.ts'
import type { RunResult } from '../driver/finish.ts'
import { FAULT_NAMES } from '../faults/fault-names.ts'

const WIDTH = 80

export function settingsLine({ settings }: Pick<RunResult, 'settings'>): string {
  const { leaseMs, batchSize, publishTimeoutMs } = settings
  return `lease ${leaseMs} ms, batches of ${batchSize}, calls up to ${publishTimeoutMs} ms`
}

/** The report of a run for a terminal of 80 columns. */
export function formatResult(result: RunResult): string {
  const { options, figures } = result
  const counts = faultCounts(result)
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
  return [
    title('Faults'),
    ...[...counts].map(([name, count]) => row(name, String(count))),
    row('in all', `${total} in ${result.steps} steps`),
    '',
    title('Figures'),
    row('database', `${options.database}, seed ${options.seed}`),
    row('relays', settingsLine(result)),
    row('time', `${(result.durationMs / 1000).toFixed(0)} s`),
    row('messages committed', String(figures.committed)),
    row('messages published', `${figures.published}, and ${figures.duplicates} copies beyond the first`),
    row('lost by failovers', `${figures.lostByFailover} messages, ${figures.effectsLostByFailover} effects`),
    row('effects', `${figures.effects}; the driver made ${figures.extraDeliveries} deliveries more`),
    row('dead letters', `${figures.consumerDeadLetters} of a consumer, driven again at once`),
    row('queue messages', `${figures.queueCommitted} committed, ${figures.queueEffects} effects`),
    row(
      'lost by failovers',
      `${figures.queueLostByFailover} queue messages, ${figures.queueEffectsLostByFailover} of their effects`,
    ),
    row('queue dead letters', `${figures.queueDeadLetters}, driven again at the end`),
    row('local messages', `${figures.localCommitted} committed, ${figures.localEffects} effects`),
    row(
      'lost by failovers',
      `${figures.localLostByFailover} local messages, ${figures.localEffectsLostByFailover} of their effects`,
    ),
    row('local dead letters', `${figures.localDeadLetters}, driven again at the end`),
    row(
      'HTTP requests',
      `${figures.httpRequests} sent, ${figures.httpAnswers} answers, ${figures.httpReplays} of them replays`,
    ),
    row(
      'HTTP effects',
      `${figures.httpEffects}; ${figures.httpEffectsLostByFailover} more were lost by failovers`,
    ),
    row('HTTP charges', `${figures.httpCharges} under a lease, ${figures.httpChargesEnded} of them ended`),
    row(
      'longest standstill',
      `${figures.longestStandstillMs} ms, at: ${figures.longestStandstillAt || 'nothing'}`,
    ),
    row('dead letters', `${figures.deadLetters} of the relays, driven again at the end`),
    row('relays that died', String(figures.relayDeaths)),
    ...(figures.maxStretch > 1
      ? [row('machine', `overloaded: bounds on time were stretched up to ${figures.maxStretch} times`)]
      : []),
    '',
    title('Checks'),
    ...result.verdicts.map(({ check, looked, violations }) =>
      row(
        check,
        violations.length > 0
          ? `VIOLATED ${violations.length} times`
          : looked === 0
            ? 'nothing to look at'
            : `holds (${looked})`,
      ),
    ),
    '',
    ...verdictLines(result),
  ].join('\n')
}

function verdictLines({ first, history, verdicts }: RunResult): readonly string[] {
  if (first === undefined) return [`No violation: ${held(verdicts)}.`]
  return [
    `VIOLATION: ${CHECKS[first.check]}.`,
    first.text,
    '',
    title(first.key === undefined ? 'History' : `History of ${first.key}`),
    ...history,
  ]
}

/** A check without observations does not count as passed, because it proves nothing. */
export function held(verdicts: readonly Pick<Verdict, 'looked' | 'violations'>[]): string {
  const violated = verdicts.filter(({ violations }) => violations.length > 0).length
  const empty = verdicts.filter(({ looked, violations }) => looked === 0 && violations.length === 0).length
  return [
    `${verdicts.length - violated - empty} checks hold`,
    ...(empty === 0 ? [] : [`${empty} had nothing to look at`]),
    ...(violated === 0 ? [] : [`${violated} are violated`]),
  ].join(', ')
}

export function faultCounts({ events }: Pick<RunResult, 'events'>): ReadonlyMap<string, number> {
  const counts = new Map<string, number>()
  for (const name of FAULT_NAMES) {
    const count = events.filter((event) => event.kind === 'fault' && event.name === name).length
    if (count > 0) counts.set(name, count)
  }
  return counts
}

function title(text: string): string {
  return `${text} ${'-'.repeat(Math.max(0, WIDTH - text.length - 1))}`
}

function row(name: string, value: string): string {
  return `  ${name.padEnd(22)} ${value}`.slice(0, WIDTH)
}
