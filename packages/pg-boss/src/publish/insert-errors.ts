import { PermanentError, RetryLaterError, type PublishResult } from '@txbox/core'
import { oneLine, propertyOf, reasonOf, withCauses } from '@txbox/core/internal'

/** The codes of pg-boss for a queue that does not exist; before 12.38, its error has none. */
const NOT_FOUND: ReadonlySet<unknown> = new Set(['PGBOSS_QUEUE_NOT_FOUND', 'QUEUE_NOT_FOUND'])
const NOT_FOUND_TEXT = /^Queue .* does not exist$/

/** Errors by which pg-boss refuses the options of a job before it sends a statement. */
const REFUSED_JOB = /require a singletonKey|^group(\.\w+)? must |^Dead letter queue .*does not exist$/

/** Data that PostgreSQL cannot store, and limits of the program, such as that of a row of an index. */
const BAD_DATA = /^(22|54)/
/** A constraint, such as one on the dead letter queue of a job. */
const REFUSED_ROW = /^23/

/** Why an insert failed. `outage`: nothing is known about the messages. The others say something about one of its messages. */
export type InsertFailure = 'queue-missing' | 'bad-data' | 'refused-row' | 'outage'

export function insertFailure(error: unknown): InsertFailure {
  if (isMissingQueue(error)) return 'queue-missing'
  if (REFUSED_JOB.test(messageOf(error))) return 'refused-row'
  if (hasState(error, BAD_DATA)) return 'bad-data'
  return hasState(error, REFUSED_ROW) ? 'refused-row' : 'outage'
}

/** The result of a message whose insert failed for itself. */
export function rejectionOf(
  { id, queue }: { readonly id: string; readonly queue: string },
  failure: Exclude<InsertFailure, 'outage'>,
  error: unknown,
  wasThere: boolean,
): PublishResult {
  const about = `Message ${oneLine(id)} was not accepted by the queue '${oneLine(queue, 100)}' of pg-boss`
  // No error of PostgreSQL is passed on as the cause, because its details quote the row.
  if (failure === 'bad-data') {
    const text = `${about}: PostgreSQL cannot store its data (SQLSTATE ${stateOf(error) ?? 'unknown'}); JSON with \\u0000 is such data.`
    return { status: 'rejected', retryable: false, error: new PermanentError(text) }
  }
  if (failure === 'refused-row') return retryable(`${about}: ${reasonOf(error, 500)}`)
  const missing = `${about}, which does not exist. Create it by boss.createQueue, or map the topic by the option 'queue'.`
  // A queue that was there before may come back, so no attempt is counted. A queue that never existed is probably a mistake, which
  // shows when the attempts are used up.
  return { ...retryable(missing), ...(wasThere && { counted: false }) }
}

/** A job that the policy of its queue has dropped: the message waits until the queue takes it. */
export function droppedByPolicy({
  id,
  queue,
}: {
  readonly id: string
  readonly queue: string
}): PublishResult {
  const text =
    `Message ${oneLine(id)} was dropped by the policy of the queue '${oneLine(queue, 100)}' of pg-boss, or by its singleton key: the ` +
    'queue has such a job already. It is tried again later.'
  return { ...retryable(text), counted: false }
}

function retryable(message: string): PublishResult & { readonly status: 'rejected' } {
  return { status: 'rejected', retryable: true, error: new RetryLaterError({ message }) }
}

function isMissingQueue(error: unknown): boolean {
  return NOT_FOUND.has(propertyOf(error, 'code')) || NOT_FOUND_TEXT.test(messageOf(error))
}

function messageOf(error: unknown): string {
  const message = propertyOf(error, 'message')
  return typeof message === 'string' ? message : ''
}

function hasState(error: unknown, state: RegExp): boolean {
  return state.test(stateOf(error) ?? '')
}

/** The SQLSTATE of PostgreSQL. */
function stateOf(error: unknown): string | undefined {
  for (const at of withCauses(error)) {
    const code = propertyOf(at, 'code')
    if (typeof code === 'string' && /^[\dA-Z]{5}$/.test(code)) return code
  }
  return undefined
}
