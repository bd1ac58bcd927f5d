import { expect, test } from 'vitest'
import type { Violation } from '../../chaos/check/violation.ts'
import { foundAfterMs } from '../../chaos/driver/finish.ts'
import { unlessSought } from '../../chaos/driver/online-checks.ts'
import type { TimelineEvent } from '../../chaos/driver/timeline.ts'

const order: Violation = { check: 'order', text: 'Change 2 came after change 5.' }
const published: Violation = { check: 'published', text: '3 messages are gone.' }

test('a violation of another check does not hide a violation of the sought check', async () => {
  const found = await unlessSought(
    order,
    ({ check }) => check === 'published',
    async () => [undefined, published],
  )
  expect(found).toEqual([order, published])
})

test('the other checks do not run if the first one finds the sought violation', async () => {
  const rest = (): never => {
    throw new Error('asked')
  }
  expect(await unlessSought(order, () => true, rest)).toEqual([order])
})

test('the time to detection is that of the violation that ended the run', () => {
  const event = (kind: TimelineEvent['kind'], name: string, text: string, atMs: number): TimelineEvent => ({
    kind,
    name,
    text,
    fromMs: atMs,
    toMs: atMs,
  })
  const events = [
    event('phase', 'warm-up', 'all workers are at work', 1000),
    event('violation', 'published', published.text, 4000),
    event('violation', 'order', order.text, 9000),
  ]
  expect(foundAfterMs(events, published)).toBe(3000)
})
