import { stripVTControlCharacters } from 'node:util'
import Table from 'cli-table3'
import { paint, terminalColumns } from './terminal.ts'

/** The minimum width of a wrapped last column. */
const MIN_LAST_COLUMN = 24

const SIDES = [
  ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
  ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'],
]

/** Matches characters that take two columns of a terminal. */
const WIDE =
  /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u

/**
 * Formats rows under a header, without lines between them. If the terminal is too narrow, the text of the last column
 * is wrapped between words. If that is not enough, each row becomes a block with one line for each cell.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  columns = terminalColumns(),
): string {
  const natural = drawn(head, rows)
  const excess = widthOf(natural) - columns
  if (excess <= 0) return natural
  const last = head.length - 1
  const room = Math.max(...[head, ...rows].map((row) => widthOf(row[last]!))) - excess
  if (room >= MIN_LAST_COLUMN) {
    const wrapped = drawn(
      head,
      rows.map((row) => [...row.slice(0, last), wrap(row[last]!, room)]),
    )
    if (widthOf(wrapped) <= columns) return wrapped
  }
  return rows
    .map((row) =>
      listed(
        head.map((title, n) => [title, row[n]!] as const),
        columns,
      ),
    )
    .join('\n\n')
}

/** Formats names and values, one pair per line. Long values are wrapped between words. Empty values are omitted. */
export function listed(
  pairs: readonly (readonly [name: string, value: string])[],
  columns = terminalColumns(),
): string {
  const indent = Math.max(...pairs.map(([name]) => widthOf(name))) + 2
  return pairs
    .filter(([, value]) => value !== '')
    .map(([name, value]) => {
      const label = `${paint('bold', name)}${' '.repeat(indent - widthOf(name))}`
      return label + wrap(value, columns - indent).replaceAll('\n', `\n${' '.repeat(indent)}`)
    })
    .join('\n')
}

/** Breaks lines between words. A word that is longer than a line stays whole. */
export function wrap(text: string, width: number): string {
  const lines: string[] = []
  for (const paragraph of text.split('\n')) {
    let line: string | undefined
    for (const word of paragraph.split(' ')) {
      if (line === undefined) line = word
      else if (widthOf(line) + 1 + widthOf(word) <= width) line += ` ${word}`
      else {
        lines.push(line)
        line = word
      }
    }
    lines.push(line ?? '')
  }
  return lines.join('\n')
}

const graphemes = new Intl.Segmenter()

/** Returns the number of terminal columns of the longest line. */
export function widthOf(text: string): number {
  return Math.max(...stripVTControlCharacters(text).split('\n').map(lineWidth))
}

function lineWidth(line: string): number {
  let width = 0
  for (const { segment } of graphemes.segment(line)) width += WIDE.test(segment) ? 2 : 1
  return width
}

/** Shortens a long text at the end of a word. */
export function shortened(text: string, characters: number): string {
  const line = text.replaceAll(/\s+/g, ' ').trim()
  if (line.length <= characters) return line
  const cut = line.slice(0, characters - 1).replace(/[\uD800-\uDBFF]$/, '')
  return `${cut.includes(' ') ? cut.slice(0, cut.lastIndexOf(' ')) : cut} …`
}

function drawn(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const drawing = new Table({
    head: head.map((title) => paint('dim', title)),
    style: { head: [], border: [], 'padding-left': 0, 'padding-right': 2 },
    chars: Object.fromEntries(SIDES.map((side) => [side, ''])),
  })
  drawing.push(...rows.map((row) => [...row]))
  return drawing.toString().replaceAll(/ +$/gm, '')
}
