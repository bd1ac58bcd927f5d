import { InvalidMessageError } from '../errors/errors.ts'
import { LIMITS } from '../options/limits.ts'
import { oneLine } from '../text/one-line.ts'
import { nameOf } from '../text/name-of.ts'
import { reasonOf } from '../errors/reason-of.ts'

/**
 * The canonical form of a JSON value by RFC 8785 (JSON Canonicalization Scheme): members sorted by UTF-16 code units,
 * numbers and strings as ECMAScript writes them, no white space. Values that JSON would silently change or lose (NaN, a
 * Map, a hole in an array) are refused. Members that are `undefined` count as absent. `toJSON` is called, as
 * `JSON.stringify` does.
 *
 * @throws {InvalidMessageError} for NaN, Infinity, BigInt, a lone surrogate, a cycle, or any other value that JSON
 *   cannot express.
 */
export function canonicalJson(value: unknown): string {
  return write(value, '', [])
}

function write(given: unknown, path: string, above: readonly object[]): string {
  // JSON would turn every invalid Date into null.
  if (isDate(given) && Number.isNaN(given.getTime())) throw refused(path, 'an invalid Date')
  const value = jsonOf(given)
  if (value === null || value === true || value === false) return String(value)
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw refused(path, String(value))
    return JSON.stringify(value)
  }
  if (typeof value === 'string') {
    if (!value.isWellFormed()) throw refused(path, 'text with a lone surrogate')
    return JSON.stringify(value)
  }
  if (typeof value !== 'object') throw refused(path, nameOf(value))
  if (above.includes(value)) throw refused(path, 'a value that contains itself')
  if (above.length >= LIMITS.fingerprintDepth) {
    throw refused(path, `nesting deeper than ${LIMITS.fingerprintDepth} levels`)
  }
  const inside = [...above, value]
  if (Array.isArray(value)) {
    return `[${Array.from(value, (item, index) => write(item, `${path}/${index}`, inside)).join(',')}]`
  }
  // A Map, a Set or a buffer has no members that JSON shows: all of them would have the same canonical form.
  if (Object.prototype.toString.call(value) !== '[object Object]') throw refused(path, nameOf(value))
  return `{${writeMembers(value as Record<string, unknown>, path, inside)}}`
}

function writeMembers(value: Record<string, unknown>, path: string, inside: readonly object[]): string {
  const members: string[] = []
  for (const name of Object.keys(value).sort()) {
    const member = value[name]
    if (member === undefined) continue
    if (!name.isWellFormed()) throw refused(path, 'a name with a lone surrogate')
    const step = name.replaceAll('~', '~0').replaceAll('/', '~1')
    members.push(`${JSON.stringify(name)}:${write(member, `${path}/${step}`, inside)}`)
  }
  return members.join(',')
}

/**
 * A value as `JSON.stringify` sees it: the result of its `toJSON`, if it has one.
 *
 * @throws {InvalidMessageError} when its `toJSON` throws.
 */
export function jsonOf(value: unknown): unknown {
  const hasToJson =
    typeof value === 'object' && value !== null && 'toJSON' in value && typeof value.toJSON === 'function'
  if (!hasToJson) return value
  try {
    return (value as { toJSON(): unknown }).toJSON()
  } catch (error) {
    throw new InvalidMessageError(
      `The payload has no fingerprint: toJSON of ${nameOf(value)} failed (${reasonOf(error, 200)}). Nothing was written.`,
      { cause: error },
    )
  }
}

/** Is this a Date, and not an object that only has its prototype? */
function isDate(value: unknown): value is Date {
  return Object.prototype.toString.call(value) === '[object Date]'
}

function refused(path: string, what: string): InvalidMessageError {
  return new InvalidMessageError(
    `The payload has no fingerprint: the value at '${oneLine(path, 100)}' is ${what}, which JSON cannot express. Nothing was written.`,
  )
}
