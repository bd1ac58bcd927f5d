/** What moves the cursor, colours or reorders text on a terminal: control characters, bidirectional controls, other line ends. */
const UNSEEN = /[\p{Cc}\p{Bidi_Control}\u2028\u2029\uFEFF]/gu
const UNSEEN_BUT_LINES = /(?![\n\t])[\p{Cc}\p{Bidi_Control}\u2028\u2029\uFEFF]/gu
/** What JSON may hold as it is, though a terminal obeys it. */
const UNSEEN_IN_JSON = /[\u007F-\u009F\p{Bidi_Control}\u2028\u2029\uFEFF]/gu

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\u001B': '\\e' }

/** Text of messages, for a terminal: control characters are shown instead of obeyed, `\n` and `\u009b`. */
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

/** JSON of the same meaning that no terminal obeys. */
export function visibleJson(json: string): string {
  return json.replaceAll(UNSEEN_IN_JSON, escaped)
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
