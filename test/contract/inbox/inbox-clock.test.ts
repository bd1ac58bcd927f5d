import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { createConsumer, type InboxMessage } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { createInbox, hours } from '@txbox/inbox'
import { type ConsumerUnderTest, listen } from '../../support/subjects/consumer-under-test.ts'
import { InboxUnderTest, WAYS } from '../../support/subjects/inbox-under-test.ts'
import { MemorySource } from '../../support/subjects/memory-source.ts'
import { onEachKind, mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { until } from '../../support/worlds/until.ts'

const target = useTarget()
afterEach(() => void vi.useRealTimers())

/** Sets the clock of this process. The clock of the database runs on. */
function setProcessClock(aheadMs: number): void {
  const now = Date.now()
  vi.useFakeTimers({ toFake: ['Date'] })
  vi.setSystemTime(now + aheadMs)
}

onEachKind(target, (kind) => {
  const root = useRoot(target, kind, { max: 4 })

  for (const way of WAYS) {
    test.each([-48, 48])(
      `maxAgeMs believes the clock of the database, when that of the process is %d hours away (${way})`,
      async (awayHours) => {
        const subject = new InboxUnderTest(target, root, { maxAgeMs: hours(1) })
        const fresh = new Date()
        const old = new Date(Date.now() - hours(1) - 1000)
        setProcessClock(hours(awayHours))
        // The first call reads the clock of the database.
        for (let n = 0; n < 2; n += 1) {
          expect(await subject.deliver(way, { id: `old-${n}`, time: old })).toEqual({
            status: 'too-old',
            key: `old-${n}`,
          })
          expect(await subject.deliver(way, { id: `fresh-${n}`, time: fresh })).toMatchObject({
            status: 'processed',
          })
        }
        expect(await subject.claimedKeys()).toEqual(['fresh-0', 'fresh-1'])
      },
    )
  }
})

const root = useRoot(target, mainKind(target), { max: 4 })

test('a consumer warns of the first message that is too old', async () => {
  const source = new MemorySource()
  const lines: string[] = []
  const events: ConsumerUnderTest['events'] = []
  const warn = (_: object, text: string): void => void lines.push(text)
  const inbox = createInbox<TransactionHandle, InboxMessage>({
    ...{ database: root.database, consumer: `clock-${target.engine}`, maxAgeMs: hours(1) },
    key: ({ id }) => id,
  })
  const consumer = createConsumer({
    ...{ source, inbox, concurrency: 1 },
    handler: () => undefined,
    logger: { info: () => undefined, warn, error: warn },
  })
  onTestFinished(() => consumer.stop())
  listen(consumer, events)
  await consumer.start()
  const time = new Date(Date.now() - hours(2))
  for (const id of ['a', 'b', 'c']) source.send(id, { time })
  await until(
    async () => events.length === 3,
    () => JSON.stringify(events),
  )
  expect(events.map(({ event, value }) => [event, Reflect.get(value, 'outcome')])).toEqual(
    events.map(() => ['handled', 'too-old']),
  )
  expect(lines).toEqual([expect.stringMatching(/Message a is older than maxAgeMs of its inbox/)])
})
