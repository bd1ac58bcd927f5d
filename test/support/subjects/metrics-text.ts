import { isDeepStrictEqual } from 'node:util'

/** A line of the text format of Prometheus. */
export interface ScrapedSample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/y

/** Reads the samples of a scrape. Fails at a line that is not in the text format 0.0.4. */
export function parseMetrics(text: string): readonly ScrapedSample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, labels = '', value] = LINE.exec(line) ?? []
      if (name === undefined || value === undefined) throw new Error(`This is no sample: ${line}`)
      return { name, labels: parseLabels(labels), value: value === '+Inf' ? Infinity : Number(value) }
    })
}

function parseLabels(text: string): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {}
  LABEL.lastIndex = 0
  while (LABEL.lastIndex < text.length) {
    const [, name, value] = LABEL.exec(text) ?? []
    if (name === undefined || value === undefined) throw new Error(`These are no labels: ${text}`)
    labels[name] = value.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
  }
  return labels
}

/** The value of the sample with exactly these labels; `undefined` if there is none. */
export function valueOf(
  samples: readonly ScrapedSample[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  return samples.find((sample) => sample.name === name && isDeepStrictEqual(sample.labels, labels))?.value
}
