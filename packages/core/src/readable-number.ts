/** Formats a whole number for people: `12,345`. */
export function readableNumber(value: number): string {
  return value.toLocaleString('en')
}
