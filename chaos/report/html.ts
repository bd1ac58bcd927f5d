import { CHECKS, type Verdict } from '../check/violation.ts'
import type { RunResult } from '../driver/finish.ts'
import type { FaultName } from '../faults/fault-names.ts'
import { FAULTS } from '../faults/faults.ts'
import { escape } from './escape.ts'
import { faultCounts, held, settingsLine } from './table.ts'
import { timelineSvg } from './timeline-svg.ts'

/** Light or dark, as the reader's system is. On a narrow screen the timeline is scrolled, not made too small to read. */
const STYLE = `
  :root { color-scheme: light dark; --text: #222; --soft: #595959; --back: #fff; --box: #f4f4f4; --grid: #e2e2e2;
    --good: #1b6e3c; --bad: #b00020; --fault: #c2571a; --published: #2457a6; --processed: #1b6e3c; --phase: #888 }
  @media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --soft: #a8a8a8; --back: #16181c; --box: #22252b;
    --grid: #33373f; --good: #6fcf97; --bad: #ff7b88; --fault: #e8894f; --published: #7fb0ff; --processed: #6fcf97;
    --phase: #999 } }
  body { font: 15px/1.4 system-ui, sans-serif; max-width: 1000px; margin: 2rem auto; padding: 0 1rem;
    color: var(--text); background: var(--back); overflow-wrap: anywhere }
  table { border-collapse: collapse; margin: 1rem 0 }
  th, td { text-align: left; padding: 2px 12px 2px 0; vertical-align: top; font-weight: normal }
  th { color: var(--soft); overflow-wrap: normal } .number { text-align: right; white-space: nowrap; overflow-wrap: normal }
  .bad { color: var(--bad); font-weight: bold } .good { color: var(--good); font-weight: bold } .none { color: var(--soft) }
  pre { background: var(--box); padding: 1rem; overflow-x: auto; font-size: 12px; overflow-wrap: normal }
  .scrolled { overflow-x: auto } svg { display: block; width: 100%; min-width: 760px; height: auto }
  svg text { font: 11px system-ui, sans-serif; fill: var(--soft) }
  svg line, svg polyline { fill: none } .grid { stroke: var(--grid) } .fault { fill: var(--fault) }
  .published { stroke: var(--published); stroke-width: 1.5 } .processed { stroke: var(--processed); stroke-width: 1.5 }
  .phase { stroke: var(--phase); stroke-dasharray: 3 3 } .violation { stroke: var(--bad); stroke-opacity: 0.6 }`

/** The report as one page without any other file: figures, checks, and a timeline of faults and throughput. */
export function toHtml(result: RunResult): string {
  const { options, first, verdicts, history } = result
  const plant = options.plant === undefined ? '' : `, with the bug “${escape(options.plant.name)}” planted`
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Chaos on ${options.database}, seed ${options.seed}</title>
<style>${STYLE}
</style>
<h1>Chaos on ${options.database}</h1>
<p class="${first === undefined ? 'good' : 'bad'}">${
    first === undefined
      ? `No violation: ${held(verdicts)}.`
      : `Violation: ${escape(CHECKS[first.check])}. ${escape(first.text)}`
  }</p>
<p>Seed ${options.seed}, ${seconds(result.durationMs)}, ${result.steps} steps, ${settingsLine(result)}, started
${new Date(result.startedAtMs).toISOString()}${plant}.${
    result.foundAfterMs === undefined ? '' : ` Found after ${seconds(result.foundAfterMs)}.`
  }</p>
<div class="scrolled">${timelineSvg(result)}</div>
<h2>Figures</h2>
<table>${figureRows(result)}</table>
<h2>Faults</h2>
<table>${faultRows(result)}</table>
<h2>Checks</h2>
<table><tr><th>check</th><th>verdict</th><th class="number">looked at</th></tr>
${verdicts.map(checkRow).join('\n')}</table>
${first === undefined ? '' : `<h2>History${first.key === undefined ? '' : ` of ${escape(first.key)}`}</h2><pre tabindex="0">${escape(history.join('\n'))}</pre>`}
</html>
`
}

function figureRows({ figures }: RunResult): string {
  const stretch = figures.maxStretch > 1 ? `up to ${figures.maxStretch} times` : 'not at all'
  const rows: readonly (readonly [string, string | number])[] = [
    ['messages committed', figures.committed],
    ['messages published', figures.published],
    ['copies beyond the first', figures.duplicates],
    ['messages lost by failovers', figures.lostByFailover],
    ['effects', figures.effects],
    ['effects lost by failovers', figures.effectsLostByFailover],
    ['deliveries more, by the driver', figures.extraDeliveries],
    ['dead letters of the relays, driven again at the end', figures.deadLetters],
    ['dead letters of a consumer, driven again at once', figures.consumerDeadLetters],
    ['queue messages committed', figures.queueCommitted],
    ['queue messages lost by failovers', figures.queueLostByFailover],
    ['effects of queue messages', figures.queueEffects],
    ['effects of queue messages lost by failovers', figures.queueEffectsLostByFailover],
    ['queue dead letters, driven again at the end', figures.queueDeadLetters],
    ['messages of local consumers committed', figures.localCommitted],
    ['messages of local consumers lost by failovers', figures.localLostByFailover],
    ['effects at local consumers', figures.localEffects],
    ['effects at local consumers lost by failovers', figures.localEffectsLostByFailover],
    ['dead letters of local consumers, driven again at the end', figures.localDeadLetters],
    ['HTTP requests', figures.httpRequests],
    ['answers to HTTP requests', figures.httpAnswers],
    ['stored responses that were replayed', figures.httpReplays],
    ['effects of HTTP requests', figures.httpEffects],
    ['effects of HTTP requests lost by failovers', figures.httpEffectsLostByFailover],
    ['charges of HTTP requests under a lease', figures.httpCharges],
    ['charges whose handlers have ended', figures.httpChargesEnded],
    ['relays that died', figures.relayDeaths],
    [
      'longest standstill',
      `${figures.longestStandstillMs.toLocaleString('en')} ms, at: ${figures.longestStandstillAt || 'nothing'}`,
    ],
    ['bounds on time stretched, for load', stretch],
  ]
  return rows
    .map(
      ([name, value]) =>
        `<tr><th>${name}</th><td>${escape(typeof value === 'number' ? value.toLocaleString('en') : value)}</td></tr>`,
    )
    .join('\n')
}

function faultRows(result: RunResult): string {
  return [...faultCounts(result)]
    .map(
      ([name, count]) =>
        `<tr><th>${name}</th><td class="number">${count}</td><td>${escape(FAULTS[name as FaultName].about)}</td></tr>`,
    )
    .join('\n')
}

function checkRow({ check, looked, violations }: Verdict): string {
  const [style, text] =
    violations.length > 0
      ? ['bad', `violated ${violations.length.toLocaleString('en')} times`]
      : looked === 0
        ? ['none', 'nothing to look at']
        : ['good', 'holds']
  return `<tr><th>${escape(CHECKS[check])}</th><td class="${style}">${text}</td><td class="number">${looked.toLocaleString('en')}</td></tr>`
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(0)} s`
}
