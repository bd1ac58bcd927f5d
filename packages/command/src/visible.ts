/**
 * Matches characters that move the cursor, or color or reorder text: control characters, bidirectional controls, other
 * line ends.
 */
const UNSEEN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\uFEFF]/gu
const UNSEEN_BUT_LINES = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\u2028\u2029\uFEFF]/gu
/** Matches characters that JSON may hold unescaped although a terminal obeys them. */
const UNSEEN_IN_JSON = /[\u007F-\u009F\p{Bidi_Control}\u2028\u2029\uFEFF]/gu

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\u001B': '\\e' }

/** Prepares the text of messages for a terminal: control characters are shown instead of obeyed, as `\n` and `\u009b`. */
export function visible(text: string): string {
  return text.toWellFormed().replaceAll(UNSEEN, (found) => SHORT[found] ?? escaped(found))
}

/** The same for text of several lines, such as a payload. */
export function visibleLines(text: string): string {
  return text
    .toWellFormed()
    .replaceAll('\r\n', '\n')
    .replaceAll(UNSEEN_BUT_LINES, (found) => SHORT[found] ?? escaped(found))
}

/** Returns JSON with the same meaning that cannot control a terminal. */
export function visibleJson(json: string): string {
  return json.replaceAll(UNSEEN_IN_JSON, escaped)
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
