/** Numbers that may change when JavaScript reads and writes them: with many digits, with an exponent, or with a minus before a zero. */
const INEXACT = /\d[\d.]{15}|\d[eE][+-]?\d|-0/

/** Since Node.js 22; the types of TypeScript do not have it yet. */
const RAW = JSON as unknown as { rawJSON(text: string): unknown }

/**
 * Parses JSON for an object that is written as JSON again. Numbers that JavaScript cannot hold, such as 2^53 + 1, keep their digits.
 *
 * @throws {SyntaxError} when the text is not JSON.
 */
export function exactJson(text: string): unknown {
  if (!INEXACT.test(text)) return JSON.parse(text)
  const exactly = (_: string, value: unknown, { source }: { readonly source?: string } = {}): unknown =>
    typeof value === 'number' && source !== undefined && String(value) !== source
      ? RAW.rawJSON(source)
      : value
  return JSON.parse(text, exactly as Parameters<typeof JSON.parse>[1])
}
