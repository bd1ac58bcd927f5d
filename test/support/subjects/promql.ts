import { expect } from 'vitest'
import type { ScrapedSample } from './metrics-text.ts'

/** A name in a query, and the labels that it must have or not have. */
interface Selector {
  readonly name: string
  readonly matchers: readonly { readonly label: string; readonly operator: string; readonly value: string }[]
}

const SELECTOR = /\b((?:txbox|messaging)_\w+|target_info)(?:\{([^}]*)\})?/g
const MATCHER = /(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"/g
const GROUPED = /\b(?:by|without|on)\s*\(([^)]*)\)/g
/** Prometheus itself adds these labels to what it scrapes. */
const OF_TARGET = new Set(['instance', 'job', 'le'])

/** The metrics that a query asks for. */
export function selectorsOf(query: string): readonly Selector[] {
  return [...query.matchAll(SELECTOR)].map(([, name = '', labels = '']) => ({
    name,
    matchers: [...labels.matchAll(MATCHER)].map(([, label = '', operator = '', value = '']) => ({
      label,
      operator,
      value,
    })),
  }))
}

/** Fails if a query asks for a metric, a value of a label, or a label to group by that a scrape does not have. */
export function expectAnswered(query: string, scraped: readonly ScrapedSample[]): void {
  const selectors = selectorsOf(query)
  expect(selectors, `${query} asks for a metric`).not.toEqual([])
  const labels = new Set<string>(OF_TARGET)
  for (const selector of selectors) {
    const found = scraped.filter((sample) => isSelected(sample, selector))
    expect(found, `${query} finds ${JSON.stringify(selector)}`).not.toEqual([])
    for (const sample of found) for (const label of Object.keys(sample.labels)) labels.add(label)
  }
  for (const [, list = ''] of query.matchAll(GROUPED)) {
    for (const label of list.split(',')) expect([...labels], `the labels of ${query}`).toContain(label.trim())
  }
}

function isSelected(sample: ScrapedSample, { name, matchers }: Selector): boolean {
  return (
    sample.name === name &&
    matchers.every(({ label, operator, value }) => {
      const actual = sample.labels[label] ?? ''
      const isSame = operator.endsWith('~') ? new RegExp(`^(?:${value})$`).test(actual) : actual === value
      return operator.startsWith('!') ? !isSame : isSame
    })
  )
}
