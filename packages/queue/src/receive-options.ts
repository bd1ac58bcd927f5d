import { InvalidOptionError, hours } from '@txbox/core'
import type { ReceiveAttempt } from '@txbox/core/ports'
import { OptionChecker, nameOf } from '@txbox/core/internal'
import type { ReceiveOptions } from './queue.ts'

const ATTEMPT_RETENTION_MS = 300_000
const ATTEMPT_ID = /^[!-~]{1,128}$/

interface ReceiveSettings {
  readonly limit: number
  readonly waitMs: number
  readonly visibilityTimeoutMs: number
  readonly attempt: ReceiveAttempt | undefined
  readonly remove: boolean
  readonly signal: AbortSignal | undefined
}

/** @throws {InvalidOptionError} for an unknown or wrong option. */
export function checkReceiveOptions(options: ReceiveOptions, visibilityTimeoutMs: number): ReceiveSettings {
  const check = new OptionChecker('receive', options).known(
    'limit',
    'waitMs',
    'visibilityTimeoutMs',
    'attemptId',
    'remove',
    'signal',
  )
  const remove = check.flag('remove', false)
  const { attemptId: id } = options
  if (id !== undefined && (typeof id !== 'string' || !ATTEMPT_ID.test(id))) {
    throw new InvalidOptionError(
      `receive: the option 'attemptId' must be text of 1 to 128 visible ASCII characters (! to ~, no spaces), not ${nameOf(id)}.`,
    )
  }
  if (id !== undefined && remove) {
    throw new InvalidOptionError(
      "receive: 'attemptId' and 'remove' exclude each other: messages that were removed cannot be received again.",
    )
  }
  return {
    limit: check.integer('limit', { min: 1, max: 1000, default: 10 }),
    waitMs: check.milliseconds('waitMs', { min: 0, max: 20_000, default: 0 }),
    visibilityTimeoutMs: check.milliseconds('visibilityTimeoutMs', {
      min: 1000,
      max: hours(12),
      default: visibilityTimeoutMs,
    }),
    attempt: id === undefined ? undefined : { id, retentionMs: ATTEMPT_RETENTION_MS },
    remove,
    signal: check.signal('signal'),
  }
}
