import type { Summary } from '../measure/statistics.ts'

/** Columns are as wide as their widest cell. The first column is text, and the others are figures. */
export function formatTable(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = header.map((title, column) =>
    Math.max(title.length, ...rows.map((row) => (row[column] ?? '').length)),
  )
  const line = (row: readonly string[]): string =>
    row
      .map((cell, column) => (column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)))
      .join('  ')
      .trimEnd()
  return [line(header), line(widths.map((width) => '─'.repeat(width))), ...rows.map(line)].join('\n')
}

export function whole(value: number): string {
  return Math.round(value).toLocaleString('en')
}

/** median (min–max) */
export function wholeSpread({ median, min, max }: Summary): string {
  return `${whole(median)} (${whole(min)}–${whole(max)})`
}

/** median (min–max) of a ratio */
export function ratioSpread({ median, min, max }: Summary): string {
  return `${median.toFixed(3)} (${min.toFixed(3)}–${max.toFixed(3)})`
}

/** median (min–max) of milliseconds or another small figure */
export function hundredthsSpread({ median, min, max }: Summary): string {
  return `${median.toFixed(2)} (${min.toFixed(2)}–${max.toFixed(2)})`
}
