import type { Verdict } from './verdict.ts'

type Row = readonly [label: string, value: number, note: string]

/** The verdict for people to read. */
export function verdictTable(verdict: Verdict): string {
  const webhooks = format(verdict.webhooks)
  const groups: readonly (readonly Row[])[] = [
    [
      [
        'deliveries',
        verdict.deliveries,
        `of ${webhooks} webhooks; ${format(verdict.unanswered)} were cut off`,
      ],
      ['duplicates', verdict.duplicates, "recognised by the receiver's inbox"],
      ['effects', verdict.effects, 'one for each webhook'],
    ],
    [
      ['published', verdict.published, 'events, one for each effect'],
      ['arrived at second service', verdict.arrivals, 'what was not settled is published again'],
      ['duplicates at second service', verdict.duplicatesAtSecond, 'recognised by its own inbox'],
      ['effects at second service', verdict.effectsAtSecond, 'one for each event'],
    ],
    [
      ['order violations per key', verdict.disordered, 'effects after a later one of their key'],
      ['lost', verdict.lost, 'webhooks or events without an effect'],
      ['doubled', verdict.doubled, 'effects that happened again'],
    ],
  ]
  const rows = groups.flat()
  const labels = Math.max(...rows.map(([label]) => label.length))
  const values = Math.max(...rows.map(([, value]) => format(value).length))
  return groups
    .map((group) =>
      group
        .map(
          ([label, value, note]) => `  ${label.padEnd(labels)}  ${format(value).padStart(values)}   ${note}`,
        )
        .join('\n'),
    )
    .join('\n\n')
}

/** 1234567 → 1,234,567 */
export function format(value: number): string {
  return value.toLocaleString('en-US')
}
