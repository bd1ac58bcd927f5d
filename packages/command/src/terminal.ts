import { styleText } from 'node:util'
import type { BoundedCount } from '@txbox/core/ports'
import { readableNumber } from '@txbox/core/internal'
import { visibleJson } from './visible.ts'

/** `styleText` omits the style if the output is not a terminal, or if NO_COLOR is set. */
export function paint(style: Parameters<typeof styleText>[0], text: string): string {
  return styleText(style, text, { stream: process.stdout })
}

/**
 * Returns the width of the terminal. If the output is a file or another program, lines may have any length, unless
 * COLUMNS is set.
 */
export function terminalColumns(): number {
  const { columns } = process.stdout
  if (columns !== undefined && columns > 0) return columns
  const set = Number(process.env['COLUMNS'])
  return Number.isSafeInteger(set) && set > 0 ? set : process.stdout.isTTY ? 80 : Infinity
}

export function write(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Writes one JSON object per line. Dates are RFC 3339 strings, and bigints are strings. */
export function writeJson(value: object): void {
  write(toJson(value))
}

export function toJson(value: object): string {
  return visibleJson(
    JSON.stringify(value, (_name, member: unknown) => (typeof member === 'bigint' ? String(member) : member)),
  )
}

/** Formats a count with its noun: `1 claim`, `2,000 claims`. */
export function counted(
  { count, atLeast }: { count: number; atLeast?: boolean },
  one: string,
  many = `${one}s`,
): string {
  return `${atLeast === true ? 'at least ' : ''}${readableNumber(count)} ${count === 1 ? one : many}`
}

/** Formats a count for a table: `1,000+` if there are more. */
export function boundedNumber({ count, atLeast }: BoundedCount): string {
  return readableNumber(count) + (atLeast ? '+' : '')
}

/** Colours the text of a figure that is not zero. */
export function highlight(count: number, text: string, colour: 'yellow' | 'red'): string {
  return count === 0 ? text : paint(colour, text)
}
