import { styleText } from 'node:util'
import Table from 'cli-table3'

/** Colours on a terminal only, and not with NO_COLOR: Node sees to that. */
export function paint(style: Parameters<typeof styleText>[0], text: string): string {
  return styleText(style, text, { stream: process.stdout })
}

/** Rows under a head, without lines between them. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const drawn = new Table({
    head: head.map((title) => paint('dim', title)),
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    chars: Object.fromEntries(SIDES.map((side) => [side, ''])),
  })
  drawn.push(...rows.map((row) => [...row]))
  return drawn.toString().replaceAll(/ +$/gm, '')
}

const SIDES = [
  ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
  ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'],
]

export function write(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** One object a line, for programs. Instants as RFC 3339, and numbers of the database's as text where they may be long. */
export function writeJson(value: object): void {
  write(
    JSON.stringify(value, (_name, member: unknown) => (typeof member === 'bigint' ? String(member) : member)),
  )
}

export function whole(value: number): string {
  return value.toLocaleString('en')
}

/** `1 claim`, `2,000 claims` */
export function counted(
  { count, atLeast }: { count: number; atLeast?: boolean },
  one: string,
  many = `${one}s`,
): string {
  return `${atLeast === true ? 'at least ' : ''}${whole(count)} ${count === 1 ? one : many}`
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1000, 's'],
] as const

/** As short as a person says it: `3 d 4 h`, `20 s`, `15 ms`. */
export function duration(ms: number): string {
  for (const [index, [unitMs, unit]] of UNITS.entries()) {
    if (ms < unitMs) continue
    const next = UNITS[index + 1]
    const rest = next === undefined ? 0 : Math.floor((ms % unitMs) / next[0])
    return `${Math.floor(ms / unitMs)} ${unit}${rest > 0 ? ` ${rest} ${next![1]}` : ''}`
  }
  return `${Math.round(ms)} ms`
}
