/**
 * Matches characters that move the cursor, or color or reorder text: control characters, bidirectional controls, other
 * line ends.
 */
const INVISIBLE = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\uFEFF]/gu
const INVISIBLE_EXCEPT_LINES = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\u2028\u2029\uFEFF]/gu
/** Matches characters that JSON may contain unescaped, but that a terminal interprets. */
const INVISIBLE_IN_JSON = /[\u007F-\u009F\p{Bidi_Control}\u2028\u2029\uFEFF]/gu

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\u001B': '\\e' }

/** Makes control characters visible, as `\n` or `\u009b`, so that the terminal does not interpret them. */
export function visible(text: string): string {
  return text.toWellFormed().replaceAll(INVISIBLE, (found) => SHORT[found] ?? escaped(found))
}

/** Like {@link visible}, but keeps line breaks and tabs, for text of several lines such as a payload. */
export function visibleLines(text: string): string {
  return text
    .toWellFormed()
    .replaceAll('\r\n', '\n')
    .replaceAll(INVISIBLE_EXCEPT_LINES, (found) => SHORT[found] ?? escaped(found))
}

/** Returns JSON with the same meaning that a terminal can safely show. */
export function visibleJson(json: string): string {
  return json.replaceAll(INVISIBLE_IN_JSON, escaped)
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
