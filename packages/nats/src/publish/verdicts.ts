import { PermanentError, RetryLaterError, type OutboxMessage, type PublishResult } from '@txbox/core'
import { oneLine, propertyOf } from '@txbox/core/internal'
import type { StreamSearch } from './publish-connection.ts'

const TEXT_CHARACTERS = 300

/** A stream without a leader has one again within moments, and an overload ends as quickly. */
const PASSING_MS = 2000

/** Why JetStream refuses a message: the code of the error, the code of its class as in HTTP, and the text. */
export interface Refusal {
  readonly code: number
  readonly status: number
  readonly text: string
}

/** An answer to a message. `'foreign'`: the answer of something else than a stream. */
export type Answer = 'stored' | 'foreign' | { readonly refusal: Refusal }

/** The message itself can never be taken: too large for the stream, or with too large headers. */
const FINAL: ReadonlySet<number> = new Set([10_054, 10_097])

/** JetStream is not enabled, or away as a whole. */
const AWAY: ReadonlySet<number> = new Set([10_008, 10_035, 10_039, 10_076])

/** The account or the server has no room. */
const NO_ROOM: ReadonlySet<number> = new Set([10_002, 10_023, 10_028, 10_047])

/** A message of the same id is in the middle of being stored. */
const SAME_ID_IN_PROCESS = 10_158
const TOO_MANY_REQUESTS = 429

/** Reads the answer to a message. */
export function answerIn(data: Uint8Array): Answer {
  let answer: unknown
  try {
    answer = JSON.parse(Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString())
  } catch {
    return 'foreign'
  }
  const error = propertyOf(answer, 'error')
  if (error === undefined || error === null) {
    const isStored = typeof propertyOf(answer, 'stream') === 'string' && propertyOf(answer, 'stream') !== ''
    return isStored && Number.isSafeInteger(propertyOf(answer, 'seq')) ? 'stored' : 'foreign'
  }
  const code = Number(propertyOf(error, 'err_code'))
  const status = Number(propertyOf(error, 'code'))
  if (!Number.isSafeInteger(code) || !Number.isSafeInteger(status)) return 'foreign'
  const text = propertyOf(error, 'description')
  return { refusal: { code, status, text: typeof text === 'string' ? text : 'without a reason' } }
}

/** Whether JetStream as a whole is away, so that nothing is known of the messages. */
export function isOutage({ code }: Refusal): boolean {
  return AWAY.has(code)
}

/** The result of a message that a stream has refused. */
export function refusedResult(message: OutboxMessage, subject: string, refusal: Refusal): PublishResult {
  const { code, status, text } = refusal
  const says = `JetStream refused it: ${oneLine(text, TEXT_CHARACTERS)} (${code})`
  if (FINAL.has(code)) return rejected(message, subject, `${says}. Publish a smaller message`, 'final')
  const isBusy = status === TOO_MANY_REQUESTS || code === SAME_ID_IN_PROCESS
  if (isBusy) return rejected(message, subject, says, 'uncounted', PASSING_MS)
  return rejected(message, subject, says, status >= 500 || NO_ROOM.has(code) ? 'uncounted' : 'counted')
}

/** @param wasSeen whether this publisher has published to the subject before: then a missing stream is an outage of its own. */
export function unheardResult(
  message: OutboxMessage,
  subject: string,
  { search, wasSeen }: { readonly search: StreamSearch; readonly wasSeen: boolean },
): PublishResult {
  if (search === 'found') {
    const says = 'its stream does not listen at the moment, such as a stream that has no leader'
    return rejected(message, subject, says, 'uncounted', PASSING_MS)
  }
  if (search === 'unknown') {
    const says =
      'nothing listens on the subject, and the user may not publish to $JS.API.STREAM.NAMES, to tell a missing stream from one that is ' +
      'away. Grant that right'
    return rejected(message, subject, says, 'uncounted')
  }
  const says = 'no stream takes the subject. Create a stream for it, or correct the subject'
  return rejected(message, subject, says, wasSeen ? 'uncounted' : 'counted')
}

export function forbiddenResult(message: OutboxMessage, subject: string): PublishResult {
  return rejected(message, subject, 'the user may not publish to the subject. Grant that right', 'counted')
}

export function lateResult(message: OutboxMessage, subject: string, timeoutMs: number): PublishResult {
  const says = `no message of this subject was confirmed within ${timeoutMs} ms, while others were. The message may be stored`
  return rejected(message, subject, says, 'uncounted')
}

export function foreignResult(message: OutboxMessage, subject: string): PublishResult {
  const says =
    'something else than a stream has answered. Let only a stream listen on the subject, or publish to another one'
  return rejected(message, subject, says, 'counted')
}

function rejected(
  { id }: OutboxMessage,
  subject: string,
  says: string,
  verdict: 'final' | 'counted' | 'uncounted',
  retryAfterMs?: number,
): PublishResult {
  const message = `Message ${oneLine(id)} was not accepted for subject '${oneLine(subject, 100)}': ${says}.`
  if (verdict === 'final') return { status: 'rejected', retryable: false, error: new PermanentError(message) }
  return {
    status: 'rejected',
    retryable: true,
    error: new RetryLaterError({ message }),
    ...(verdict === 'uncounted' && { counted: false }),
    ...(retryAfterMs !== undefined && { retryAfterMs }),
  }
}
