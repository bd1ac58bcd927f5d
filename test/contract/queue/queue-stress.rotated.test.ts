import { expect, inject, test } from 'vitest'
import { QueueStorm, VISIBILITY_MS } from '../../support/subjects/queue-storm.ts'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
/** To repeat a run: TXBOX_TEST_SEED=1. What happens at the same time differs between runs of one seed. */
const SEED = Number(process.env['TXBOX_TEST_SEED'] ?? Math.trunc(Math.random() * 2 ** 31))
const RECEIVERS = 5
const MESSAGES = Number(process.env['TXBOX_TEST_MESSAGES'] ?? (inject('tier') === 'all' ? 400 : 150))

const root = useRoot(target, mainKind(target), { max: 16 })

test(`Q2 Q3 Q5 Q7 Q8 Q19 Q20 many senders and receivers: no message is lost, doubled, out of order or stuck, and no key has two in flight, seed ${SEED}`, async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: VISIBILITY_MS })
  const storm = new QueueStorm(target, subject, SEED)
  await storm.run(root, { messages: MESSAGES, receivers: RECEIVERS })
  await storm.check()
  expect(storm.violations).toEqual([])
  expect(storm.sent.length).toBeGreaterThanOrEqual(MESSAGES)
  expect(await subject.size()).toBe(0)
  expect((await subject.queue.deadLetters.list({ limit: 1000 })).map(({ id }) => id).toSorted()).toEqual(
    [...storm.dead].toSorted(),
  )
  if (inject('tier') === 'all') {
    const slower = ['slower than the lease and handled', 'slower than the lease and rolled back']
    const kinds = ['handled', 'lost', 'released', 'buried', 'rolled back', 'refused', ...slower]
    expect(Object.keys(storm.counts)).toEqual(expect.arrayContaining(kinds))
  }
})
