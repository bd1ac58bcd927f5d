import { createHash } from 'node:crypto'
import { canonicalJson, jsonOf } from './canonical-json.ts'
import { InvalidMessageError, InvalidOptionError } from '../errors/errors.ts'
import type { KeyExtractor } from './keys.ts'
import { oneLine } from '../text/one-line.ts'
import { OptionChecker } from '../options/options.ts'
import { nameOf } from '../text/name-of.ts'

/**
 * Returns a key extractor for messages without an id: the key is the SHA-256 of selected fields of the payload in the
 * canonical form of RFC 8785. The selection is part of the hash, so that a changed selection never matches a claim made
 * with the old one. The extractor refuses a message that has none of the selected fields with an `InvalidMessageError`.
 * An object with a `toJSON` method counts as the value that `toJSON` returns.
 *
 * @throws {InvalidOptionError} when a pointer is not a valid JSON Pointer, or when no field is selected.
 */
export function fingerprint(
  options: {
    /** JSON Pointers (RFC 6901) into the payload: only these fields count. @default the whole payload */
    include?: readonly string[] | undefined
    /** JSON Pointers into the payload: these fields do not count. @default none */
    exclude?: readonly string[] | undefined
  } = {},
): KeyExtractor {
  new OptionChecker('fingerprint', options).known('include', 'exclude')
  const include = pointers('include', options.include ?? [''])
  const exclude = pointers('exclude', options.exclude ?? [])
  if (include.length === 0) {
    throw new InvalidOptionError(
      "fingerprint: the option 'include' names no field, so all messages would have the same key. Omit it to select the whole payload.",
    )
  }
  if (include.every((field) => exclude.some((out) => isInside(field, out)))) {
    throw new InvalidOptionError(
      "fingerprint: the option 'exclude' excludes every selected field, so all messages would have the same key.",
    )
  }
  const selection = canonicalJson([include.map((p) => p.text), exclude.map((p) => p.text)])
  return (message) => {
    const { payload } = message
    if (payload === undefined) {
      throw new InvalidMessageError(
        'The message has no payload, so it has no fingerprint. Nothing was written.',
      )
    }
    const fields = include.map((pointer) => fieldText(payload, pointer, exclude))
    // All messages without any of the fields would have the same fingerprint.
    if (fields.every((text) => text === ABSENT)) throw withoutFields(payload, include)
    const hash = createHash('sha256').update(`${selection}\n`)
    for (const text of fields) hash.update(text)
    return `fingerprint:${hash.digest('hex')}`
  }
}

/** Stands for a missing field. Canonical JSON has no line breaks and is never empty. */
const ABSENT = '\n'

function withoutFields(payload: unknown, include: readonly Pointer[]): InvalidMessageError {
  const selected = oneLine(include.map(({ text }) => text).join(', '))
  const isParsed = typeof payload === 'object' && payload !== null && !(payload instanceof Uint8Array)
  return new InvalidMessageError(
    `The message has none of the fields that its fingerprint is made of (${selected}): its payload is ${nameOf(payload)}` +
      `${isParsed ? ' without these fields' : ', and not an object. Parse the payload first'}. Nothing was written.`,
  )
}

interface Pointer {
  readonly text: string
  readonly steps: readonly string[]
}

/**
 * Returns one line for a field: its canonical JSON, which has no line breaks, or an empty line if the field is absent.
 */
function fieldText(payload: unknown, pointer: Pointer, exclude: readonly Pointer[]): string {
  const field = fieldAt(payload, pointer.steps)
  if (field === undefined) return ABSENT
  if (field instanceof Uint8Array) {
    return `bytes:${createHash('sha256').update(field).digest('hex')}\n`
  }
  let kept: unknown = field
  for (const out of exclude) {
    if (pointer.steps.every((step, index) => out.steps[index] === step)) {
      kept = without(kept, out.steps.slice(pointer.steps.length))
    } else if (isInside(pointer, out)) {
      return ABSENT
    }
  }
  return kept === undefined ? ABSENT : `${canonicalJson(kept)}\n`
}

/** Returns whether `field` points to the same value as `whole`, or to a part of that value. */
function isInside(field: Pointer, whole: Pointer): boolean {
  return whole.steps.every((step, index) => field.steps[index] === step)
}

function fieldAt(value: unknown, steps: readonly string[]): unknown {
  let field = value
  for (const step of steps) field = memberOf(field instanceof Uint8Array ? undefined : jsonOf(field), step)
  return field
}

/**
 * Returns the value to which one step of a pointer leads in a JSON value. In an array, a step leads to elements only,
 * never to `length`.
 */
function memberOf(json: unknown, step: string): unknown {
  if (typeof json !== 'object' || json === null) return undefined
  if (Array.isArray(json) && !/^(0|[1-9]\d*)$/.test(step)) return undefined
  return Object.hasOwn(json, step) ? (json as Record<string, unknown>)[step] : undefined
}

/**
 * Returns a copy without one field; unchanged parts are shared with the original. An excluded element of an array
 * becomes `null`.
 */
function without(given: unknown, steps: readonly string[]): unknown {
  const [step, ...rest] = steps
  if (step === undefined) return undefined
  if (given instanceof Uint8Array) return given
  const value = jsonOf(given)
  if (memberOf(value, step) === undefined) return given
  if (Array.isArray(value)) {
    return value.map((item, index) => (String(index) === step ? (without(item, rest) ?? null) : item))
  }
  const kept = without((value as Record<string, unknown>)[step], rest)
  return Object.fromEntries(
    Object.entries(value as object).flatMap(([name, member]) =>
      name !== step ? [[name, member]] : kept === undefined ? [] : [[name, kept]],
    ),
  )
}

function pointers(option: string, given: unknown): readonly Pointer[] {
  if (!Array.isArray(given)) {
    throw new InvalidOptionError(
      `fingerprint: '${option}' must be a list of JSON Pointers, not ${nameOf(given)}.`,
    )
  }
  return [...new Set<unknown>(given)]
    .map((text) => pointer(option, text))
    .sort((a, b) => (a.text < b.text ? -1 : 1))
}

function pointer(option: string, text: unknown): Pointer {
  const isPointer =
    typeof text === 'string' && (text === '' || text.startsWith('/')) && !/~(?![01])/.test(text)
  if (!isPointer || !text.isWellFormed()) {
    throw new InvalidOptionError(
      `fingerprint: '${option}' takes JSON Pointers such as '/order/id' (RFC 6901), not ` +
        `${typeof text === 'string' ? `'${oneLine(text)}'` : nameOf(text)}.`,
    )
  }
  const steps = text.split('/').slice(1)
  return { text, steps: steps.map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~')) }
}
