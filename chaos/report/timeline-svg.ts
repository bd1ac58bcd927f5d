import type { RunResult } from '../driver/finish.ts'
import type { Sample, TimelineEvent } from '../driver/timeline.ts'
import { FAULT_NAMES } from '../faults/fault-names.ts'
import { escape } from './escape.ts'

const WIDTH = 1000
const LEFT = 170
const LANE = 16
/** Between the lanes and the curves, and above both for the names of the phases. */
const GAP = 26
const HEAD = 18
const CHART = 140
const FOOT = 44
/** Room for half a label of the axis. */
const RIGHT = 20
const MOST_TICKS = 8
const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400]

type Subject = Pick<RunResult, 'events' | 'samples' | 'startedAtMs' | 'durationMs'>

/** A lane for each kind of fault, and below the rate of published messages and of effects. */
export function timelineSvg({ events, samples, startedAtMs, durationMs }: Subject): string {
  const x = (atMs: number): number =>
    LEFT + ((atMs - startedAtMs) / Math.max(1, durationMs)) * (WIDTH - LEFT - RIGHT)
  const kinds = FAULT_NAMES.filter((name) =>
    events.some((event) => event.kind === 'fault' && event.name === name),
  )
  const top = HEAD + kinds.length * LANE + GAP
  const bottom = top + CHART
  return `<svg viewBox="0 0 ${WIDTH} ${bottom + FOOT}" role="img" aria-label="Timeline of faults and throughput">
${axis(durationMs, (ms) => x(startedAtMs + ms), bottom)}
${kinds.map((name, lane) => laneOf(name, HEAD + lane * LANE, events, x)).join('\n')}
${curves(samples, x, top)}
${marks(events, x, bottom)}
${legend(bottom + 36)}
</svg>`
}

function laneOf(
  name: string,
  y: number,
  events: readonly TimelineEvent[],
  x: (atMs: number) => number,
): string {
  const bars = events
    .filter((event) => event.kind === 'fault' && event.name === name)
    .map(({ fromMs, toMs, text }) => {
      const width = Math.max(3, x(toMs) - x(fromMs)).toFixed(1)
      return `<rect class="fault" x="${x(fromMs).toFixed(1)}" y="${y + 3}" width="${width}" height="${LANE - 6}"><title>${escape(text)}</title></rect>`
    })
  return `<text x="0" y="${y + LANE - 4}">${name}</text>${bars.join('')}`
}

/** Round seconds, as few as fit. */
export function ticks(durationMs: number): readonly number[] {
  const seconds = durationMs / 1000
  const step = STEPS_S.find((one) => seconds / one <= MOST_TICKS) ?? Math.ceil(seconds / MOST_TICKS)
  return Array.from({ length: Math.floor(seconds / step) + 1 }, (_, index) => index * step)
}

function axis(durationMs: number, x: (ms: number) => number, bottom: number): string {
  return ticks(durationMs)
    .map((seconds) => {
      const at = x(seconds * 1000).toFixed(1)
      return `<line class="grid" x1="${at}" x2="${at}" y1="${HEAD}" y2="${bottom}"/><text x="${at}" y="${bottom + 15}" text-anchor="middle">${seconds} s</text>`
    })
    .join('')
}

function curves(samples: readonly Sample[], x: (atMs: number) => number, top: number): string {
  const most = Math.max(1, ...rates(samples, 'published'), ...rates(samples, 'processed'))
  const y = (rate: number): number => top + CHART - (rate / most) * CHART
  const curve = (of: 'published' | 'processed'): string => {
    const points = rates(samples, of).map(
      (rate, index) => `${x(samples[index + 1]!.atMs).toFixed(1)},${y(rate).toFixed(1)}`,
    )
    return `<polyline class="${of}" points="${points.join(' ')}"/>`
  }
  const labels = [most, most / 2, 0].map(
    (rate) =>
      `<text x="${LEFT - 8}" y="${(y(rate) + 4).toFixed(1)}" text-anchor="end">${Math.round(rate)}</text><line class="grid" x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(rate).toFixed(1)}" y2="${y(rate).toFixed(1)}"/>`,
  )
  return `<text x="0" y="${top + 4}">messages/s</text>${labels.join('')}${curve('published')}${curve('processed')}`
}

/** The phases with their names, and each violation. */
function marks(events: readonly TimelineEvent[], x: (atMs: number) => number, bottom: number): string {
  return events
    .filter(({ kind }) => kind !== 'fault')
    .map(({ kind, name, text, fromMs }) => {
      const at = x(fromMs)
      // A name at the right edge is written to the left of its line.
      const label =
        kind === 'phase'
          ? `<text x="${at.toFixed(1)}" y="11" text-anchor="${at > WIDTH / 2 ? 'end' : 'start'}">${escape(name)}</text>`
          : ''
      return `<line class="${kind}" x1="${at.toFixed(1)}" x2="${at.toFixed(1)}" y1="${HEAD - 4}" y2="${bottom}"><title>${escape(`${name}: ${text}`)}</title></line>${label}`
    })
    .join('\n')
}

function legend(y: number): string {
  const line = (from: number, name: string, text: string): string =>
    `<line class="${name}" x1="${from}" x2="${from + 24}" y1="${y - 4}" y2="${y - 4}"/><text x="${from + 30}" y="${y}">${text}</text>`
  return [
    line(LEFT, 'published', 'published'),
    line(LEFT + 120, 'processed', 'effects'),
    `<rect class="fault" x="${LEFT + 220}" y="${y - 9}" width="24" height="10"/><text x="${LEFT + 250}" y="${y}">fault</text>`,
    line(LEFT + 310, 'phase', 'phase'),
    line(LEFT + 400, 'violation', 'violation'),
  ].join('')
}

/** Messages a second between each two samples. */
function rates(samples: readonly Sample[], of: 'published' | 'processed'): readonly number[] {
  return samples.slice(1).map((sample, index) => {
    const before = samples[index]!
    return Math.max(0, ((sample[of] - before[of]) / Math.max(1, sample.atMs - before.atMs)) * 1000)
  })
}
