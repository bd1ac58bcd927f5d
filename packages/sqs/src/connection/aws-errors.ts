import { oneLine, propertyOf, reasonOf } from '@txbox/core/internal'

const REASON_CHARACTERS = 500

/** SQS and SNS answer a wrong signature with the text that they have signed, in which a session token may stand. */
const SIGNED_TEXT = /\s*(the canonical string|the string-to-sign|credential should be scoped)[\s\S]*/i
/** The advice of the client in its error for an answer that it cannot read. */
const CLIENT_ADVICE = /Deserialization error: to see the raw response/
/** The message of the client's error for an answer without a text. */
const NO_MESSAGE = /^Unknown(Error)?$/

/**
 * The kinds of errors of SQS and SNS, by what follows for the destination of a request. `'missing'`, `'forbidden'`: retried and
 * counted. `'trouble'`, `'throttled'`: the destination is in trouble, so that no attempt is counted. `'too-large'`, `'invalid'`: an
 * entry of the request is at fault. `'unknown'`: nothing is known.
 */
export type ErrorKind =
  | 'missing'
  | 'forbidden'
  | 'trouble'
  | 'throttled'
  | 'too-large'
  | 'invalid'
  | 'unknown'

/** By the names of the errors in lower case, without `Exception` and `Error` at the end. */
const KINDS: ReadonlyMap<string, ErrorKind> = new Map<string, ErrorKind>([
  ...named('missing', ['QueueDoesNotExist', 'NonExistentQueue', 'QueueDeletedRecently', 'NotFound']),
  ...named('missing', ['InvalidAddress']),
  ...named('forbidden', ['AccessDenied', 'Authorization', 'KmsAccessDenied']),
  ...named('trouble', [
    'KmsDisabled',
    'KmsInvalidState',
    'KmsInvalidKeyUsage',
    'KmsNotFound',
    'KmsOptInRequired',
  ]),
  ...named('throttled', ['RequestThrottled', 'Throttling', 'Throttled', 'TooManyRequests', 'OverLimit']),
  ...named('throttled', ['KmsThrottled', 'KmsThrottling', 'ThrottledRequest', 'RequestLimitExceeded']),
  ...named('too-large', ['BatchRequestTooLong']),
  ...named('invalid', [
    'InvalidParameterValue',
    'InvalidParameter',
    'MissingParameter',
    'InvalidMessageContents',
  ]),
  ...named('invalid', [
    'ParameterValueInvalid',
    'UnsupportedOperation',
    'InvalidAttributeValue',
    'Validation',
  ]),
])

function named(kind: ErrorKind, names: readonly string[]): [string, ErrorKind][] {
  return names.map((name) => [name.toLowerCase(), kind])
}

/** Returns the code of an error of the client or of an entry, such as `QueueDoesNotExist`. */
export function codeOf(error: unknown): string {
  for (const member of ['name', 'Code', 'code']) {
    const code = propertyOf(error, member)
    if (typeof code === 'string' && code !== '' && code !== 'Error') return oneLine(code, 100)
  }
  return ''
}

/** @param code such as `QueueDoesNotExist` or `AWS.SimpleQueueService.NonExistentQueue`. */
export function kindOf(code: string): ErrorKind {
  const plain = code
    .toLowerCase()
    .replace(/^.*[.#]/, '')
    .replace(/(error)?(exception)?$/, '')
  return KINDS.get(plain) ?? 'unknown'
}

/** The reason for which SQS or SNS has refused a request. */
export interface Refusal {
  readonly kind: Exclude<ErrorKind, 'unknown'>
  /** The code and text of the service, in one line, without a period at the end. */
  readonly reason: string
}

/** Returns what the service says about the destination or the messages of a failed request; `undefined` if nothing is known of them. */
export function refusalIn(error: unknown): Refusal | undefined {
  const kind = kindOf(codeOf(error))
  if (kind === 'unknown' || !isAnswer(error)) return undefined
  const reason = reasonIn(error)
  // SNS says so of topics of another region.
  const isForeignTopic = kind === 'invalid' && /\bTopicArn\b/.test(reason)
  return { kind: isForeignTopic ? 'missing' : kind, reason }
}

/** Whether the error is an answer of the service. The client turns a page of another server into an error named after its status. */
function isAnswer(error: unknown): boolean {
  const message = propertyOf(error, 'message')
  return typeof message === 'string' && message !== '' && !NO_MESSAGE.test(message)
}

/** Returns why a request failed, in one line without a period, with the code of the error and without secrets. */
export function reasonIn(error: unknown): string {
  const code = codeOf(error)
  const message = propertyOf(error, 'message')
  const text = typeof message === 'string' ? message : ''
  const status = propertyOf(propertyOf(error, '$metadata'), 'httpStatusCode')
  if (typeof status === 'number' && (NO_MESSAGE.test(text) || CLIENT_ADVICE.test(text))) {
    return `it answered with the HTTP status ${status}, but not as SQS or SNS does. Look at the endpoint, and at proxies before it`
  }
  const reason = reasonOf(SIGNED_TEXT.test(text) ? text.replace(SIGNED_TEXT, '') : error, REASON_CHARACTERS)
  const whole = code === '' || reason.includes(code) ? reason : `${code}: ${reason}`
  return oneLine(whole, REASON_CHARACTERS).replace(/[.\s]+$/, '')
}
