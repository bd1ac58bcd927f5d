import { exponentialBackoff, type RetryPolicy } from '@txbox/core'
import type { BacklogMessage, Refusal } from '@txbox/core/ports'
import { oneLine, usablePause, withError, type EventListeners } from '@txbox/core/internal'
import type { Rejection } from './in-flight-batch.ts'
import type { RelayEvents } from '../options/relay.ts'

const FALLBACK = exponentialBackoff()

/** One day: the key of a message waits with the message, so a longer pause is cut. */
const LONGEST_PAUSE_MS = 86_400_000
/** How long a message waits if its destination is unavailable, unless the publisher sets the time. */
const UNCOUNTED_PAUSE_MS = 30_000

const CRASHED = 'The relay died, or was cut off, while it published this message.'

/** A message that was refused, what happens to it, and the publisher's reason. */
export interface Refused {
  readonly message: BacklogMessage
  readonly refusal: Refusal
  readonly error: unknown
}

interface RefusalTools {
  readonly retry: RetryPolicy
  readonly events: EventListeners<RelayEvents>
}

/** Decides what happens to a message that the publisher has rejected: another attempt, or none. */
export function refuse(message: BacklogMessage, rejection: Rejection, tools: RefusalTools): Refused {
  const { error, retryable, retryAfterMs, counted } = rejection
  const isCounted = counted !== false
  const attempts = message.attempts + (isCounted ? 1 : 0)
  // A message is given up at once only if `retryable` is exactly `false`.
  const final =
    isCounted && ((retryable as boolean | undefined) === false || attempts >= tools.retry.attempts)
  const askedMs = retryAfterMs ?? (isCounted ? undefined : UNCOUNTED_PAUSE_MS)
  const retryInMs = final ? undefined : pauseMs(message, Math.max(1, attempts), askedMs, tools)
  return refusedFor(message, { attempts, error, retryInMs })
}

/** Makes the message a dead letter. Counts no attempt. */
export function giveUp(message: BacklogMessage, reason: string): Refused {
  return refusedFor(message, {
    attempts: message.attempts,
    error: new Error(reason),
    retryInMs: undefined,
  })
}

/** The refusal of a suspect that has been in flight at as many crashes as a message has attempts. */
export function giveUpSuspect(message: BacklogMessage): Refused {
  return giveUp(message, CRASHED)
}

/**
 * The refusal of a suspect that is about to be tried, or that goes back to the other suspects with this many attempts
 * counted.
 */
export function suspected(message: BacklogMessage, attempts: number): Refused {
  const refusal = {
    row: message,
    attempts,
    error: attempts === 0 ? '' : CRASHED,
    errors: undefined,
    retryInMs: 0,
    suspect: true,
  }
  return { message, error: undefined, refusal }
}

/** The keys of refused messages that will be tried again: later messages of these keys have to wait. */
export function waitingKeys(refused: readonly Refused[]): ReadonlySet<string | undefined> {
  const waiting = refused.filter(({ message, refusal }) => message.ordered && refusal.retryInMs !== undefined)
  return new Set(waiting.map(({ message }) => message.key))
}

/** Messages of a batch that have to wait behind a message of the same batch that was refused and is tried again. */
export function behindRefused(
  batch: readonly BacklogMessage[],
  accepted: readonly BacklogMessage[],
  refused: readonly Refused[],
): readonly BacklogMessage[] {
  const waiting = waitingKeys(refused)
  if (waiting.size === 0) return []
  const gone = new Set([...accepted, ...refused.map(({ message }) => message)])
  return batch.filter((message) => waiting.has(message.key) && !gone.has(message))
}

/**
 * Emits the events of refused messages. Must be called once the messages are settled: until then they may be published
 * again.
 *
 * @returns the number of dead messages among them.
 */
export function reportRefused(refused: readonly Refused[], events: EventListeners<RelayEvents>): number {
  let dead = 0
  for (const { message, refusal, error } of refused) {
    const what = nameOfMessage(message)
    if (refusal.retryInMs === undefined) {
      dead++
      events.emit('dead-lettered', { ...what, attempts: refusal.attempts, error })
    } else {
      const dueAt = new Date(Date.now() + refusal.retryInMs)
      events.emit('parked', { ...what, attempt: refusal.attempts, dueAt, error })
    }
  }
  return dead
}

function refusedFor(
  message: BacklogMessage,
  { attempts, error, retryInMs }: { attempts: number; error: unknown; retryInMs: number | undefined },
): Refused {
  const stored = withError(message.errors, error, attempts)
  return {
    message,
    error,
    refusal: { row: message, attempts, ...stored, retryInMs, suspect: false },
  }
}

/** A wrong pause must not keep accepted messages from being settled: the default policy decides in its place. */
function pauseMs(
  message: BacklogMessage,
  attempt: number,
  askedMs: number | undefined,
  { retry, events }: RefusalTools,
): number {
  const ms = usablePause(() => askedMs ?? retry.delayMs(attempt, Math.random), {
    after: `attempt ${attempt} of message ${oneLine(message.id)}`,
    source: askedMs === undefined ? 'delayMs of the retry policy' : "retryAfterMs of the publisher's result",
    insteadMs: FALLBACK.delayMs(Math.min(attempt, FALLBACK.attempts), Math.random),
    report: (error) => events.emit('error', { error, ...nameOfMessage(message) }),
  })
  return Math.min(ms, LONGEST_PAUSE_MS)
}

function nameOfMessage({ id, topic, key }: BacklogMessage): { id: string; topic: string; key?: string } {
  return { id, topic, ...(key === undefined ? {} : { key }) }
}
