// Characters that move the cursor or reorder the surrounding text on a terminal.
const INVISIBLE = /[\p{Cc}\p{Bidi_Control}]/gu

/**
 * Formats text from outside so that it fits into one line of an error message, a log or a text column: runs of white
 * space become one space, other control characters are shown in the form `\u001b`, lone surrogates are replaced, and
 * the end is cut off.
 *
 * @param limitCharacters the maximum length of the result, in UTF-16 code units. @default 200
 */
export function oneLine(text: string, limitCharacters = 200): string {
  // Text far beyond the limit is not examined: the text may be megabytes long.
  const line = text
    .slice(0, 2 * limitCharacters + 1)
    .toWellFormed()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(INVISIBLE, escaped)
    .trim()
  if (line.length <= limitCharacters && text.length <= 2 * limitCharacters + 1) return line
  // Half of a surrogate pair at the cut is left out.
  return `${line.slice(0, limitCharacters - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}

/** Shows control characters and those that reorder the text, in the form `\u001b`. The rest of the text is unchanged. */
export function visible(text: string): string {
  return text.replaceAll(INVISIBLE, escaped)
}

function escaped(found: string): string {
  return `\\u${found.charCodeAt(0).toString(16).padStart(4, '0')}`
}
