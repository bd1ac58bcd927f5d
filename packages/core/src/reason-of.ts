import { oneLine } from './one-line.ts'
import { nameOf } from './options.ts'
import { propertyOf } from './property-of.ts'

/** How many levels of causes are followed, and how many errors of one AggregateError are shown. */
const LEVELS = 3
const SIDE_BY_SIDE = 5
/** How much of a message is read beyond the limit, so that the end of a URL that holds a password is found. */
const LOOK_AHEAD_CHARACTERS = 1024

/**
 * The message of an error, with its causes, in one line: `fetch failed: connect ECONNREFUSED 127.0.0.1:9`. Follows
 * `cause` and the `errors` of an AggregateError, three levels deep, and does not repeat the text of a cause that an
 * error has already quoted. The result can be stored and shown: passwords in URLs are replaced by `***`, control
 * characters are made visible, NUL and lone surrogates do not occur. Never throws, whatever was thrown.
 *
 * @param limitCharacters the maximum length of the result, in UTF-16 code units. @default 2000
 */
export function reasonOf(error: unknown, limitCharacters = 2000): string {
  return oneLine(reasonBelow(error, LEVELS, '', limitCharacters), limitCharacters)
}

/** `said` holds the text of the errors above. */
function reasonBelow(error: unknown, levels: number, said: string, limitCharacters: number): string {
  const text = messageOf(error, limitCharacters)
  const own = said.includes(text) ? '' : text
  if (levels === 0) return own
  const below = causesOf(error)
    .map((cause) => reasonBelow(cause, levels - 1, `${said}\n${own}`, limitCharacters))
    .filter((reason) => reason !== '')
  const causes = [...new Set(below)].join('; ')
  return causes === '' || own === '' ? own + causes : `${own.replace(/[.:\s]+$/, '')}: ${causes}`
}

/** One error's own message without its causes; empty when its causes say everything. */
function messageOf(error: unknown, limitCharacters: number): string {
  const text = typeof error === 'string' ? error : textIn(error, 'message')
  if (text !== '') return withoutPasswords(text, limitCharacters)
  if (causesOf(error).length > 0) return ''
  const name = textIn(error, 'code') || textIn(error, 'name')
  return name === '' ? nameOf(error) : oneLine(name, limitCharacters)
}

function causesOf(error: unknown): unknown[] {
  const cause = propertyOf(error, 'cause')
  const several = propertyOf(error, 'errors')
  const errors: unknown[] = []
  try {
    if (Array.isArray(several)) errors.push(...several.slice(0, SIDE_BY_SIDE))
  } catch {
    // A list that cannot be read adds nothing.
  }
  return cause === undefined || cause === null ? errors : [cause, ...errors]
}

function withoutPasswords(text: string, limitCharacters: number): string {
  const atMost = limitCharacters + LOOK_AHEAD_CHARACTERS
  const beginning = text.slice(0, atMost)
  // A password may hold any character but white space, if it was not percent-encoded. A port is not a password.
  const masked = beginning.replaceAll(/(:\/\/[^\s:/@?#[]*):(?!\d{1,5}[/?#])[^\s]*@/g, '$1:***@')
  const complete =
    text.length > atMost ? masked.replace(/(:\/\/[^\s:/@?#[]*):(?!\d{1,5}[/?#])[^\s@]*$/, '$1:***') : masked
  return oneLine(complete, limitCharacters)
}

function textIn(error: unknown, name: string): string {
  const value = propertyOf(error, name)
  return typeof value === 'string' ? value.trim() : ''
}
