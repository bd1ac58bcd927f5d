import { PermanentError } from '@txbox/core'
import type { LocalMessage, LocalRefusal } from '@txbox/core/ports'
import { explanationOf, oneLine, withError } from '@txbox/core/internal'

/** One day: the key of a message waits with the message, so a longer pause is cut. */
const LONGEST_PAUSE_MS = 86_400_000
/** How long a message waits for a handler of its type before it is tried again. */
const UNHANDLED_PAUSE_MS = 30_000

const CRASHED = 'The consumer died, or was cut off, while it handled this message.'

/**
 * The refusal of a message that has failed.
 *
 * @param how `attempts` includes the last attempt. Without `retryInMs`, the message becomes a dead letter.
 */
export function refusalOf(
  message: LocalMessage,
  how: { readonly error: unknown; readonly attempts: number; readonly retryInMs: number | undefined },
): LocalRefusal {
  const { error, attempts, retryInMs } = how
  return {
    row: message,
    attempts,
    ...withError(message.errors, error, attempts, explanationOf),
    retryInMs: retryInMs === undefined ? undefined : Math.min(retryInMs, LONGEST_PAUSE_MS),
    suspect: false,
    unhandled: false,
  }
}

/** The refusal of a message whose consumer has no handler for its type. It keeps its attempts and errors. */
export function unhandledRefusal(message: LocalMessage): LocalRefusal {
  const { type, attempts, isSuspect } = message
  return {
    row: message,
    attempts,
    error: `The consumer has no handler for ${typeName(type)}.`,
    errors: undefined,
    retryInMs: UNHANDLED_PAUSE_MS,
    suspect: isSuspect,
    unhandled: true,
  }
}

/** The refusal of a suspect that was in flight at as many crashes as a message has attempts. Counts no attempt. */
export function crashedRefusal(message: LocalMessage): {
  readonly refusal: LocalRefusal
  readonly error: Error
} {
  const error = new PermanentError(CRASHED)
  const how = { error: CRASHED, attempts: message.attempts, retryInMs: undefined }
  return { error, refusal: refusalOf(message, how) }
}

/** The refusal of a suspect that is about to be tried, or that goes back to the other suspects with this many attempts counted. */
export function suspectedRefusal(message: LocalMessage, attempts: number): LocalRefusal {
  return {
    row: message,
    attempts,
    error: attempts === 0 ? '' : CRASHED,
    errors: undefined,
    retryInMs: 0,
    suspect: true,
    unhandled: false,
  }
}

export function typeName(type: string | undefined): string {
  return type === undefined ? 'messages without a type' : `the type '${oneLine(type)}'`
}
