import { expect, test } from 'vitest'
import { InvalidOptionError, LIMITS, type RetryPolicy } from '@txbox/core'
import type { BacklogMessage } from '@txbox/core/ports'
import { EventListeners } from '@txbox/core/internal'
import type { RelayEvents } from '@txbox/relay'
import { refuse } from '../../packages/relay/src/turns/refusals.ts'

const message = { id: 'm-1', topic: 'test', key: 'k', attempts: 1 } as BacklogMessage

/** Refuses the message. @returns its pause, and the reported errors */
function refused(delayMs: () => unknown, retryAfterMs?: number) {
  const events = new EventListeners<RelayEvents>()
  const errors: RelayEvents['error'][] = []
  events.on('error', (event) => void errors.push(event))
  const retry = { attempts: 5, delayMs } as RetryPolicy
  const rejection = { status: 'rejected', error: new Error('no'), retryable: true, retryAfterMs } as const
  return { pauseMs: refuse(message, rejection, { retry, events }).refusal.retryInMs!, errors }
}

/** The default pause after the second attempt is from 1 s to 2 s. */
function expectDefaultPause(pauseMs: number): void {
  expect(pauseMs).toBeGreaterThanOrEqual(1000)
  expect(pauseMs).toBeLessThanOrEqual(2000)
}

test('O4 N1 a retry policy that throws is reported with the message and the cause, and the default policy decides', () => {
  const broken = new Error('broken policy')
  const { pauseMs, errors } = refused(() => {
    throw broken
  })
  expectDefaultPause(pauseMs)
  expect(errors).toMatchObject([{ id: 'm-1', topic: 'test', key: 'k', error: { cause: broken } }])
  expect(errors[0]!.error).toBeInstanceOf(InvalidOptionError)
  expect(String(errors[0]!.error)).toMatch(
    /After attempt 2 of message m-1, delayMs of the retry policy threw an error\. The message is tried again in \d+ ms/,
  )
})

test.each([undefined, null, Number.NaN, -1, Infinity, 1e300, '5'])(
  'O4 N1 a retry policy that returns %s is reported, and the default policy decides',
  (wrong) => {
    const { pauseMs, errors } = refused(() => wrong)
    expectDefaultPause(pauseMs)
    expect(errors.length).toBe(1)
    expect(String(errors[0]!.error)).toContain('delayMs of the retry policy is ')
  },
)

test('O4 N1 a retryAfterMs that is not a number of milliseconds is reported, and the default policy decides', () => {
  const { pauseMs, errors } = refused(() => 5, Number.NaN)
  expectDefaultPause(pauseMs)
  expect(String(errors[0]!.error)).toContain("retryAfterMs of the publisher's result is NaN")
})

test('O4 a usable pause is kept, up to one day, and nothing is reported', () => {
  expect(refused(() => 5)).toEqual({ pauseMs: 5, errors: [] })
  expect(refused(() => 0)).toEqual({ pauseMs: 0, errors: [] })
  expect(refused(() => 5, 7)).toEqual({ pauseMs: 7, errors: [] })
  expect(refused(() => 86_400_001)).toEqual({ pauseMs: 86_400_000, errors: [] })
  expect(refused(() => LIMITS.durationMs)).toEqual({ pauseMs: 86_400_000, errors: [] })
})
