import { aggregatedErrors, oneLine, propertyOf } from '@txbox/core/internal'

/** The client hides the reason of a failure up to six levels deep. */
const LEVELS = 8
const ERRORS_OF_A_LEVEL = 100
const REASONS = 5
const REASON_CHARACTERS = 500
/** A shorter secret would mask parts of ordinary words. */
const MASKED_CHARACTERS = 6

/** Errors that only say that something below them failed. */
const WITHOUT_REASON =
  /^(Producing messages failed|Cannot connect to any broker|Received response with error|\w+ failed \d+ times)/

/** The code of an answer for one topic or partition, such as 3 for an unknown topic, with Kafka's own text, if there is one. */
export interface Refusal {
  readonly code: number
  readonly text?: string | undefined
}

/** The codes of errors that end by themselves within moments, after a topic was created or its leader has moved. Nothing is stored. */
const PASSING: ReadonlySet<number> = new Set([3, 5, 6, 72])

/** Whether the metadata of the topic are out of date, so that the topic must be looked up again. */
export function isPassing(code: number): boolean {
  return PASSING.has(code)
}

/**
 * Yields an error of the client and all errors in it, each before its causes. Core's `withCauses` would stop after some 30 errors, but a
 * request may have an error for each of its partitions.
 */
function* errorsIn(error: unknown, levels = LEVELS): Generator<object> {
  if (typeof error !== 'object' || error === null || levels === 0) return
  yield error
  for (const below of causesOf(error)) yield* errorsIn(below, levels - 1)
}

function causesOf(error: object): readonly unknown[] {
  const cause = propertyOf(error, 'cause')
  return [...(cause === undefined ? [] : [cause]), ...aggregatedErrors(error, ERRORS_OF_A_LEVEL)]
}

/**
 * Returns why a request failed, in one line without a period, with Kafka's own text.
 *
 * @param secrets texts that are replaced by `***`, should an error quote them.
 */
export function reasonIn(error: unknown, secrets: readonly string[]): string {
  const texts = new Set<string>()
  for (const each of errorsIn(error)) {
    const text = textOf(each)
    if (text !== '' && !WITHOUT_REASON.test(text)) texts.add(text)
    if (texts.size === REASONS) break
  }
  const [first = 'unknown error', ...others] = texts
  let reason = [first, ...others].join(': ')
  for (const secret of secrets) {
    if (secret.length >= MASKED_CHARACTERS) reason = reason.replaceAll(secret, '***')
  }
  return oneLine(reason, REASON_CHARACTERS)
}

function textOf(error: object): string {
  const message = propertyOf(error, 'message')
  const text = typeof message === 'string' ? message.replace(/[.\s]+$/, '') : ''
  const name = propertyOf(error, 'apiId')
  const own = propertyOf(error, 'serverErrorMessage')
  if (typeof name !== 'string') return text
  return `${typeof own === 'string' && own !== '' ? own.replace(/[.\s]+$/, '') : text} (${codeOf(error)} ${name})`
}

/** The code of Kafka that an error names, as far as the error itself is one. */
function codeOf(error: object): number | undefined {
  const code = propertyOf(error, 'apiCode')
  return typeof code === 'number' ? code : undefined
}

/**
 * Returns the response that has made the client throw, because a topic or partition in it has an error.
 *
 * @param list the member that identifies the response, which is a list.
 */
export function responseIn<R extends object>(error: unknown, list: keyof R): R | undefined {
  for (const each of errorsIn(error)) {
    const response = propertyOf(each, 'response')
    if (Array.isArray(propertyOf(response, list))) return response as R
  }
  return undefined
}

/** The codes of Kafka that an error and the errors in it name. Empty if Kafka did not answer. */
export function errorCodesIn(error: unknown): readonly number[] {
  return [...errorsIn(error)].map(codeOf).filter((code) => code !== undefined)
}

/** Whether a broker does not give out ids of producers yet, because it has just started. */
export function isStarting(error: unknown): boolean {
  return errorCodesIn(error).some((code) => code === 14 || code === 15)
}

/** Returns Kafka's refusal of the topic, if a request for the metadata of this one topic failed because of the topic. */
export function refusalOfTopic(error: unknown): Refusal | undefined {
  for (const each of errorsIn(error)) {
    // The client replaces Kafka's answer by an error of its own.
    if (isUnknownTopic(each)) return { code: 3 }
    const path = propertyOf(each, 'path')
    const code = codeOf(each)
    if (code !== undefined && typeof path === 'string' && path.startsWith('/topics/')) return { code }
  }
  return undefined
}

function isUnknownTopic(error: object): boolean {
  return (
    propertyOf(error, 'code') === 'PLT_KFK_USER' &&
    String(propertyOf(error, 'message')).startsWith('Unknown topic ')
  )
}
