import {
  exponentialBackoff,
  type BacklogMessage,
  type EventListeners,
  type Refusal,
  type RetryPolicy,
} from '@txbox/core'
import type { Rejection } from './publish-in-order.ts'
import type { RelayEvents } from './relay.ts'

const FALLBACK = exponentialBackoff()

/** A day. */
const LONGEST_PAUSE_MS = 86_400_000

/** What is kept of the text of an error. */
const ERROR_CHARACTERS = 2000

/** A message that was refused, what becomes of it, and why as the publisher gave it. */
export interface Refused {
  readonly message: BacklogMessage
  readonly refusal: Refusal
  readonly error: unknown
}

/** What becomes of a message that the publisher has refused: another attempt, or none. */
export function refuse(
  message: BacklogMessage,
  { error, retryable, retryAfterMs }: Rejection,
  retry: RetryPolicy,
): Refused {
  const attempts = message.attempts + 1
  // Only who says so gives a message up.
  const final = (retryable as boolean | undefined) === false || attempts >= retry.attempts
  const retryInMs = final ? undefined : pauseMs(attempts, retryAfterMs, retry)
  return { message, error, refusal: { seq: message.seq, attempts, error: describe(error), retryInMs } }
}

/** A message that is not tried again, nor was now. */
export function bury(message: BacklogMessage, reason: string): Refused {
  const { seq, attempts } = message
  return {
    message,
    error: new Error(reason),
    refusal: { seq, attempts, error: reason, retryInMs: undefined },
  }
}

/** Keys that have to wait for a message of theirs. */
export function waitingKeys(refused: readonly Refused[]): ReadonlySet<string | undefined> {
  const waiting = refused.filter(({ message, refusal }) => message.ordered && refusal.retryInMs !== undefined)
  return new Set(waiting.map(({ message }) => message.key))
}

/** Told once it is settled: before that it may still be forgotten. → how many of them are dead */
export function tell(refused: readonly Refused[], events: EventListeners<RelayEvents>): number {
  let dead = 0
  for (const { message, refusal, error } of refused) {
    const { id, topic, key } = message
    const what = { id, topic, ...(key === undefined ? {} : { key }) }
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

/** What comes from outside may be nonsense, or throw: that must not keep what was accepted from being settled. */
function pauseMs(attempt: number, askedMs: number | undefined, retry: RetryPolicy): number {
  let ms = askedMs
  try {
    ms ??= retry.delayMs(attempt, Math.random)
  } catch {
    // The user's policy failed: the default one decides.
  }
  return typeof ms === 'number' && ms >= 0
    ? Math.min(ms, LONGEST_PAUSE_MS)
    : FALLBACK.delayMs(Math.min(attempt, FALLBACK.attempts), Math.random)
}

/** As a database can hold it. */
function describe(error: unknown): string {
  let text: string
  try {
    text = String(error)
  } catch {
    text = 'an error that cannot be shown as text'
  }
  return text.replaceAll('\0', ' ').slice(0, ERROR_CHARACTERS).toWellFormed()
}
