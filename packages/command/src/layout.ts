import { stripVTControlCharacters } from 'node:util'
import Table from 'cli-table3'
import { paint, terminalColumns } from './terminal.ts'

/** The minimum width of a column whose text is wrapped or cut. */
const MIN_COLUMN = 24

const SIDES = [
  ...['top', 'top-mid', 'top-left', 'top-right', 'bottom', 'bottom-mid', 'bottom-left', 'bottom-right'],
  ...['left', 'left-mid', 'mid', 'mid-mid', 'right', 'right-mid', 'middle'],
]

/** Matches characters that take two columns of a terminal. */
const WIDE =
  /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6]|\p{Emoji_Presentation}/u

/**
 * Formats rows under a header, without lines between them. If the terminal is too narrow, the text of the last column
 * is wrapped between words, or the text of the column `cut` is cut. If that is not enough, each row becomes a block with
 * one line for each cell.
 */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  { cut, columns = terminalColumns() }: { readonly cut?: number; readonly columns?: number } = {},
): string {
  const natural = drawn(head, rows)
  const excess = widthOf(natural) - columns
  if (excess <= 0) return natural
  const elastic = cut ?? head.length - 1
  const room = Math.max(...[head, ...rows].map((row) => widthOf(row[elastic]!))) - excess
  if (room >= MIN_COLUMN) {
    const fit = cut === undefined ? wrap : cutText
    const narrow = drawn(
      head,
      rows.map((row) => row.with(elastic, fit(row[elastic]!, room))),
    )
    if (widthOf(narrow) <= columns) return narrow
  }
  const textColumns = columns - indentOf(head)
  return rows
    .map((row) =>
      listed(
        head.map((title, n) => [title, n === cut ? cutText(row[n]!, textColumns) : row[n]!] as const),
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
  const indent = indentOf(pairs.map(([name]) => name))
  return pairs
    .filter(([, value]) => value !== '')
    .map(([name, value]) => {
      const label = `${paint('bold', name)}${' '.repeat(indent - widthOf(name))}`
      return label + wrap(value, columns - indent).replaceAll('\n', `\n${' '.repeat(indent)}`)
    })
    .join('\n')
}

/** Returns the column in which the values beside these names begin. */
function indentOf(names: readonly string[]): number {
  return Math.max(...names.map(widthOf)) + 2
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

/** Cuts a text to one line of at most `width` columns: at the end of a word, unless that word fills half of the line. */
function cutText(text: string, width: number): string {
  if (widthOf(text) <= width) return text
  const ending = ' …'
  let room = width - widthOf(ending)
  let kept = ''
  for (const { segment } of graphemes.segment(text)) {
    room -= lineWidth(segment)
    if (room < 0) break
    kept += segment
  }
  const wordEnd = `${kept}${text[kept.length]}`.lastIndexOf(' ')
  return `${wordEnd > kept.length / 2 ? kept.slice(0, wordEnd) : kept}${ending}`
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
