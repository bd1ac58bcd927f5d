import { oneLine } from '../text/one-line.ts'
import { nameOf } from '../text/name-of.ts'
import { aggregatedErrors } from './causes.ts'
import { propertyOf } from './property-of.ts'

/** Clients wrap what a server has said: that of Kafka says why in the sixth level. */
const CAUSE_LEVELS = 7
const AGGREGATED_ERRORS = 5
/** The nearest ones: each error could have several causes, and a getter may create new ones. */
const MOST_ERRORS = 50
/** How much of a message is read beyond the limit, to find the end of a URL that contains a password. */
const LOOK_AHEAD_CHARACTERS = 1024

const SECRET_PARAMETER = /([?&](?:password|passwd|pwd|token|secret)=)[^\s&#]*/gi

/**
 * Returns the message of an error and its causes in one line: `fetch failed: connect ECONNREFUSED 127.0.0.1:9`. Follows
 * `cause` and the first five `errors` of an AggregateError, seven levels deep and to at most 50 errors, the nearest ones.
 * Does not repeat the text of a cause that an outer error has already quoted. The result is safe to store and to show: passwords
 * in URLs are replaced by `***`, control characters are made visible, and NUL and lone surrogates do not occur. Never throws,
 * whatever `error` is.
 *
 * @param limitCharacters the maximum length of the result, in UTF-16 code units. @default 2000
 */
export function reasonOf(error: unknown, limitCharacters = 2000): string {
  return oneLine(reasonBelow(chainOf(error), '', limitCharacters), limitCharacters)
}

/** An error with those of its causes that are read. */
interface Chain {
  readonly error: unknown
  readonly level: number
  readonly causes: Chain[]
}

function chainOf(error: unknown): Chain {
  const first: Chain = { error, level: 0, causes: [] }
  const found = [first]
  for (const { error: at, level, causes } of found) {
    if (level === CAUSE_LEVELS || found.length === MOST_ERRORS) continue
    for (const cause of causesOf(at).slice(0, MOST_ERRORS - found.length)) {
      const next: Chain = { error: cause, level: level + 1, causes: [] }
      causes.push(next)
      found.push(next)
    }
  }
  return first
}

/** @param outer the texts of the outer errors. */
function reasonBelow({ error, causes }: Chain, outer: string, limitCharacters: number): string {
  const text = messageOf(error, limitCharacters)
  const own = outer.includes(text) ? '' : text
  const below = causes
    .map((cause) => reasonBelow(cause, `${outer}\n${own}`, limitCharacters))
    .filter((reason) => reason !== '')
  const reasons = [...new Set(below)].join('; ')
  return reasons === '' || own === '' ? own + reasons : `${own.replace(/[.:\s]+$/, '')}: ${reasons}`
}

/** Returns the message of one error without its causes; empty if the error has causes but no message. */
function messageOf(error: unknown, limitCharacters: number): string {
  const text = typeof error === 'string' ? error : textIn(error, 'message')
  if (text !== '') return withoutPasswords(text, limitCharacters)
  if (causesOf(error).length > 0) return ''
  const name = textIn(error, 'code') || textIn(error, 'name')
  return name === '' ? nameOf(error) : oneLine(name, limitCharacters)
}

function causesOf(error: unknown): readonly unknown[] {
  const cause = propertyOf(error, 'cause')
  return [
    ...(cause === undefined || cause === null ? [] : [cause]),
    ...aggregatedErrors(error, AGGREGATED_ERRORS),
  ]
}

function withoutPasswords(text: string, limitCharacters: number): string {
  const atMost = limitCharacters + LOOK_AHEAD_CHARACTERS
  const beginning = text.slice(0, atMost)
  // A password may hold any character but white space, if it was not percent-encoded. A port is not a password.
  const masked = beginning.replaceAll(/(:\/\/[^\s:/@?#[]*):(?!\d{1,5}[/?#])[^\s]*@/g, '$1:***@')
  const complete =
    text.length > atMost ? masked.replace(/(:\/\/[^\s:/@?#[]*):(?!\d{1,5}[/?#])[^\s@]*$/, '$1:***') : masked
  return oneLine(complete.replaceAll(SECRET_PARAMETER, '$1***'), limitCharacters)
}

function textIn(error: unknown, name: string): string {
  const value = propertyOf(error, name)
  return typeof value === 'string' ? value.trim() : ''
}
