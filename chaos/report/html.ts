import { CHECKS } from '../check/violation.ts'
import type { RunResult } from '../driver/finish.ts'
import type { Sample } from '../driver/timeline.ts'
import { FAULT_NAMES } from '../faults/fault-names.ts'
import { faultCounts, settingsLine } from './table.ts'

const WIDTH = 1000
const LEFT = 160
const LANE = 16
const CHART = 140

/** The report as one page without any other file: figures, checks, and a timeline of faults and throughput. */
export function toHtml(result: RunResult): string {
  const { options, figures, first, verdicts, history } = result
  const rows = (pairs: readonly (readonly [string, string])[]): string =>
    pairs.map(([name, value]) => `<tr><th>${escape(name)}</th><td>${escape(value)}</td></tr>`).join('\n')
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Chaos on ${options.database}, seed ${options.seed}</title>
<style>
  body { font: 15px/1.4 system-ui, sans-serif; max-width: ${WIDTH}px; margin: 2rem auto; padding: 0 1rem; color: #222 }
  table { border-collapse: collapse; margin: 1rem 0 }
  th, td { text-align: left; padding: 2px 12px 2px 0; vertical-align: top; font-weight: normal }
  th { color: #666 }
  .bad { color: #b00020; font-weight: bold } .good { color: #1b6e3c; font-weight: bold }
  pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: 12px }
  svg { width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #555 }
</style>
<h1>Chaos on ${options.database}</h1>
<p class="${first === undefined ? 'good' : 'bad'}">${
    first === undefined ? 'No violation.' : `Violation: ${escape(CHECKS[first.check])}. ${escape(first.text)}`
  }</p>
<p>Seed ${options.seed}, ${(result.durationMs / 1000).toFixed(0)} s, ${result.steps} steps, ${settingsLine(result)}, started
${new Date(result.startedAtMs).toISOString()}${options.plant === undefined ? '' : `, with the bug “${escape(options.plant.name)}” planted`}.</p>
${timeline(result)}
<h2>Figures</h2>
<table>${rows(Object.entries(figures).map(([name, value]) => [readable(name), String(value)]))}</table>
<h2>Faults</h2>
<table>${rows([...faultCounts(result)].map(([name, count]) => [name, String(count)]))}</table>
<h2>Checks</h2>
<table>${verdicts
    .map(
      ({ check, looked, violations }) =>
        `<tr><th>${escape(CHECKS[check])}</th><td class="${violations.length > 0 ? 'bad' : 'good'}">${
          violations.length > 0
            ? `violated ${violations.length} times`
            : looked === 0
              ? 'nothing to look at'
              : 'holds'
        }</td><td>${looked}</td></tr>`,
    )
    .join('\n')}</table>
${first === undefined ? '' : `<h2>History${first.key === undefined ? '' : ` of ${escape(first.key)}`}</h2><pre>${escape(history.join('\n'))}</pre>`}
</html>
`
}

/** A lane for each kind of fault, and below the rate of published messages and of effects. */
function timeline({ events, samples, startedAtMs, durationMs }: RunResult): string {
  const x = (atMs: number): number => LEFT + ((atMs - startedAtMs) / durationMs) * (WIDTH - LEFT)
  const kinds = FAULT_NAMES.filter((name) =>
    events.some((event) => event.kind === 'fault' && event.name === name),
  )
  const top = kinds.length * LANE + 10
  const lanes = kinds.map((name, lane) => {
    const y = lane * LANE
    const bars = events
      .filter((event) => event.kind === 'fault' && event.name === name)
      .map(({ fromMs, toMs, text }) => {
        const width = Math.max(3, x(toMs) - x(fromMs)).toFixed(1)
        return `<rect x="${x(fromMs).toFixed(1)}" y="${y + 3}" width="${width}" height="${LANE - 6}" fill="#c2571a"><title>${escape(text)}</title></rect>`
      })
    return `<text x="0" y="${y + LANE - 4}">${name}</text>${bars.join('')}`
  })
  const marks = events
    .filter(({ kind }) => kind !== 'fault')
    .map(({ kind, name, text, fromMs }) => {
      const color = kind === 'violation' ? '#b00020' : '#888'
      return `<line x1="${x(fromMs).toFixed(1)}" x2="${x(fromMs).toFixed(1)}" y1="0" y2="${top + CHART}" stroke="${color}" stroke-dasharray="3 3"><title>${escape(`${name}: ${text}`)}</title></line>`
    })
  const most = Math.max(1, ...rates(samples, 'published'), ...rates(samples, 'processed'))
  const curve = (of: 'published' | 'processed', color: string): string => {
    const points = rates(samples, of).map(
      (rate, index) =>
        `${x(samples[index + 1]!.atMs).toFixed(1)},${(top + CHART - (rate / most) * CHART).toFixed(1)}`,
    )
    return `<polyline points="${points.join(' ')}" fill="none" stroke="${color}" stroke-width="1.5"/>`
  }
  const legend = `<text x="0" y="${top + 14}">${Math.round(most)} messages/s</text>
<text x="0" y="${top + 44}" style="fill:#2457a6">published</text><text x="0" y="${top + 60}" style="fill:#1b6e3c">effects</text>`
  return `<svg viewBox="0 0 ${WIDTH} ${top + CHART + 20}" role="img" aria-label="Timeline of faults and throughput">
${lanes.join('\n')}
${curve('published', '#2457a6')}${curve('processed', '#1b6e3c')}
${legend}
${marks.join('\n')}
<text x="${LEFT}" y="${top + CHART + 15}">0 s</text><text x="${WIDTH - 40}" y="${top + CHART + 15}">${(durationMs / 1000).toFixed(0)} s</text>
</svg>`
}

/** Messages a second between each two samples. */
function rates(samples: readonly Sample[], of: 'published' | 'processed'): readonly number[] {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index]!
    return Math.max(0, ((sample[of] - before[of]) / Math.max(1, sample.atMs - before.atMs)) * 1000)
  })
}

function readable(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).replace(/ ms$/, ' (ms)')
}

function escape(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
