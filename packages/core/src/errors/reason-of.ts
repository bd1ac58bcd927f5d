import { oneLine } from '../text/one-line.ts'
import { nameOf } from '../text/name-of.ts'
import { aggregatedErrors } from './causes.ts'
import { propertyOf } from './property-of.ts'

const CAUSE_LEVELS = 3
const AGGREGATED_ERRORS = 5
/** How much of a message is read beyond the limit, to find the end of a URL that contains a password. */
const LOOK_AHEAD_CHARACTERS = 1024

const SECRET_PARAMETER = /([?&](?:password|passwd|pwd|token|secret)=)[^\s&#]*/gi

/**
 * Returns the message of an error and its causes in one line: `fetch failed: connect ECONNREFUSED 127.0.0.1:9`. Follows
 * `cause` and the `errors` of an AggregateError, three levels deep, and does not repeat the text of a cause that an
 * outer error has already quoted. The result is safe to store and to show: passwords in URLs are replaced by `***`,
 * control characters are made visible, and NUL and lone surrogates do not occur. Never throws, whatever `error` is.
 *
 * @param limitCharacters the maximum length of the result, in UTF-16 code units. @default 2000
 */
export function reasonOf(error: unknown, limitCharacters = 2000): string {
  return oneLine(reasonBelow(error, CAUSE_LEVELS, '', limitCharacters), limitCharacters)
}

/** @param outer the texts of the outer errors. */
function reasonBelow(error: unknown, levels: number, outer: string, limitCharacters: number): string {
  const text = messageOf(error, limitCharacters)
  const own = outer.includes(text) ? '' : text
  if (levels === 0) return own
  const below = causesOf(error)
    .map((cause) => reasonBelow(cause, levels - 1, `${outer}\n${own}`, limitCharacters))
    .filter((reason) => reason !== '')
  const causes = [...new Set(below)].join('; ')
  return causes === '' || own === '' ? own + causes : `${own.replace(/[.:\s]+$/, '')}: ${causes}`
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
