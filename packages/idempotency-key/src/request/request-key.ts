import type { HttpRequest } from './http-request.ts'
import { headerLines } from './http-request.ts'

/** The key of a request, or why it is refused with 400. */
export type RequestKey =
  | { readonly kind: 'key'; readonly key: string }
  | { readonly kind: 'none' }
  | { readonly kind: 'refused'; readonly title: string; readonly detail: string }

/** A String of RFC 8941, or a token of RFC 9110 with `:` and `/`, which a token of RFC 8941 may have. */
const STRING = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z:/]+$/

/**
 * Reads the header `Idempotency-Key`: `"k1"` and `k1` are one key. Two header lines are refused also if a server has joined
 * them with a comma, because neither form has a comma outside of quotes.
 */
export function keyOfHeader(request: HttpRequest, maxCharacters: number): RequestKey {
  const lines = headerLines(request, 'idempotency-key')
  if (lines === undefined) return { kind: 'none' }
  const text = lines[0]!.replace(/^[ \t]+|[ \t]+$/g, '')
  if (lines.length > 1) return malformed('The request has the header Idempotency-Key more than once.')
  if (text === '' || text === '""') return malformed('The header Idempotency-Key is empty.')
  const [, quoted] = STRING.exec(text) ?? []
  if (quoted === undefined && !TOKEN.test(text)) {
    return malformed(
      'The header Idempotency-Key must be one String in double quotes (RFC 8941) or one token, such as a UUID.',
    )
  }
  return checkedKey(quoted === undefined ? text : quoted.replaceAll(/\\(["\\])/g, '$1'), maxCharacters)
}

/** Checks a key that the option `key` has taken from another part of the request. */
export function keyOfOption(given: unknown, maxCharacters: number): RequestKey {
  if (given === undefined || given === null) return { kind: 'none' }
  if (typeof given !== 'string' || given === '' || !given.isWellFormed()) {
    return malformed('The idempotency key of the request must be text that is not empty.')
  }
  return checkedKey(given, maxCharacters)
}

function checkedKey(key: string, maxCharacters: number): RequestKey {
  if (key.length <= maxCharacters) return { kind: 'key', key }
  return malformed(`The idempotency key has ${key.length} characters; at most ${maxCharacters} are allowed.`)
}

function malformed(detail: string): RequestKey {
  return { kind: 'refused', title: 'The Idempotency-Key is malformed', detail }
}
