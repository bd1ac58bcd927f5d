import type { Attributes } from '@txbox/core'
import { visible } from '@txbox/core/internal'

export type MetricKind = 'counter' | 'gauge' | 'histogram'

/** A line: the labels, in the order of their names, and a number. */
export interface Sample {
  /** The text behind the name of the family, such as `_bucket`. */
  readonly suffix?: string
  readonly labels: string
  readonly value: number
}

/** The samples of one name. */
export interface Family {
  readonly name: string
  readonly kind: MetricKind
  readonly help: string
  readonly samples: readonly Sample[]
}

const UNITS: Readonly<Record<string, string>> = { s: 'seconds', ms: 'milliseconds', By: 'bytes' }

/** Returns the name by OpenTelemetry's rules for Prometheus: underscores, the unit as a word, and `_total` at the end of a counter. */
export function prometheusName(metric: string, unit: string, kind: MetricKind): string {
  const name = sanitized(metric)
  const word = UNITS[unit] ?? ''
  const withUnit = word === '' || name.split('_').includes(word) ? name : `${name}_${word}`
  return kind === 'counter' && !withUnit.endsWith('_total') ? `${withUnit}_total` : withUnit
}

/** Labels as they stand in a line: `{queue="work"}`, or nothing. The values of names that become the same are joined by `;`. */
export function labelsOf(attributes: Attributes): string {
  const labels = new Map<string, string>()
  for (const name of Object.keys(attributes).toSorted()) {
    const label = labelOf(name)
    const value = String(attributes[name])
    const before = labels.get(label)
    labels.set(label, before === undefined ? value : `${before};${value}`)
  }
  const pairs = [...labels].map(([name, value]) => `${name}="${escapedValue(value)}"`)
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`
}

/** Adds the label `le` of a histogram's bucket. */
export function withBound(labels: string, bound: number): string {
  const le = `le="${numberText(bound)}"`
  return labels === '' ? `{${le}}` : `${labels.slice(0, -1)},${le}}`
}

/** The text format 0.0.4: of each family its help, its type and its samples. A family without samples is left out. */
export function formatted(families: Iterable<Family>): string {
  let text = ''
  for (const { name, kind, help, samples } of families) {
    if (samples.length === 0) continue
    text += `# HELP ${name} ${help}\n# TYPE ${name} ${kind}\n`
    for (const { suffix = '', labels, value } of samples) {
      text += `${name}${suffix}${labels} ${numberText(value)}\n`
    }
  }
  return text
}

function sanitized(name: string): string {
  const replaced = name.replaceAll(/[^a-zA-Z0-9_]+/g, '_').replaceAll(/_{2,}/g, '_')
  return /^[a-zA-Z_]/.test(replaced) ? replaced : `_${replaced}`
}

/** `le` is the label of a histogram's bucket, which may not occur twice. */
function labelOf(attribute: string): string {
  const label = sanitized(attribute)
  return label === 'le' ? 'le_' : label
}

/** Control characters, also line ends, are shown as in a log: a person may read the metrics on a terminal. */
function escapedValue(value: string): string {
  return visible(value.toWellFormed()).replaceAll('\\', '\\\\').replaceAll('"', '\\"')
}

function numberText(value: number): string {
  if (value === Infinity) return '+Inf'
  if (value === -Infinity) return '-Inf'
  return String(value)
}
