/*
 * Inserts values into the text of a statement for PostgreSQL as literals instead of parameters, for libraries that can
 * send several statements in one message only if these have no parameters. A literal is ASCII, so that neither
 * client_encoding nor standard_conforming_strings can change its meaning.
 */
import { InvalidMessageError } from '@txbox/core'
import { plainValue, type PlainValue } from '../array-text.ts'

/** Text whose meaning between quotes does not depend on a setting. */
const PLAIN = /^[\x20-\x26\x28-\x5B\x5D-\x7E]*$/

/**
 * Matches characters that must be escaped in an E'' string: all except printable ASCII, and also the quote and the
 * backslash.
 */
const ESCAPED = /[^\x20-\x26\x28-\x5B\x5D-\x7E]/gu

/**
 * Matches a quoted name, a text or a parameter. Names and texts are matched because they may contain something that
 * looks like a parameter.
 */
const PARTS = /"[^"]*"|'[^']*'|\$(\d+)/g

/**
 * Replaces the parameters `$1`, `$2`, … of a statement by literals. The statement must not have dollar-quoted texts,
 * comments or E'' strings.
 *
 * @throws {InvalidMessageError} for a text with the character NUL, which PostgreSQL does not have.
 */
export function withLiterals(text: string, values: readonly unknown[]): string {
  if (values.length === 0) return text
  const literals = values.map((value) => literal(plainValue(value)))
  return text.replaceAll(PARTS, (part: string, number: string | undefined) => {
    if (number === undefined) return part
    const found = literals[Number(number) - 1]
    if (found === undefined) throw new Error(`A statement has ${part}, but only ${values.length} values.`)
    return found
  })
}

/** As with a parameter, the server determines the type. */
export function literal(value: PlainValue): string {
  if (value === null) return 'null'
  if (typeof value !== 'string') return ` E'\\\\x${value.toString('hex')}'`
  if (PLAIN.test(value)) return `'${value}'`
  if (value.includes('\0')) {
    throw new InvalidMessageError(
      'PostgreSQL cannot store the character U+0000 in a text. Nothing was written.',
    )
  }
  // The space separates the E from a word before it.
  return ` E'${value.toWellFormed().replaceAll(ESCAPED, escapedCharacter)}'`
}

function escapedCharacter(character: string): string {
  if (character === "'") return "''"
  if (character === '\\') return '\\\\'
  const code = character.codePointAt(0)!.toString(16)
  return code.length > 4 ? `\\U${code.padStart(8, '0')}` : `\\u${code.padStart(4, '0')}`
}
