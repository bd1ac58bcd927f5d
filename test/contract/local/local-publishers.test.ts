import { setTimeout as sleep } from 'node:timers/promises'
import { isTxboxError } from '@txbox/core'
import { expect, onTestFinished, test } from 'vitest'
import { LocalUnderTest, MADE } from '../../support/subjects/local-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'
import { randomFrom } from '../../support/worlds/random.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 20 })

test('L2 calls with lockKeys that name keys in opposite orders, with topics and without, do not deadlock', async () => {
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'], { lockKeys: true })
  const publish = async (n: number): Promise<string[]> => {
    const messages = [{ key: 'a', topic: 't' }, { key: 'b' }, { key: 'c', type: 'other', topic: 't' }]
    return subject.publishTogether(n % 2 === 0 ? messages : messages.toReversed())
  }
  const results = await Promise.allSettled(Array.from({ length: 60 }, (_, n) => publish(n)))
  expect(results.filter(({ status }) => status === 'rejected')).toEqual([])
  for (const consumer of ['billing', 'mailer']) expect(await subject.waiting(consumer)).toBe(120)
  await target.sql(`delete from ${target.outboxTable}`)
})

test('L2 calls without lockKeys that store rows for several consumers do not deadlock, whatever the order of their messages', async () => {
  const names = ['billing', 'mailer', 'search', 'audit']
  const subject = new LocalUnderTest(target, root, { [MADE]: names, paid: names.toReversed() })
  const publish = async (n: number): Promise<string[]> => {
    const messages = Array.from({ length: 20 }, (_, at) => ({
      key: `k${at % 4}`,
      type: (at + n) % 2 === 0 ? 'made' : 'paid',
    }))
    return subject.publishTogether(n % 2 === 0 ? messages : messages.toReversed())
  }
  const results = await Promise.allSettled(Array.from({ length: 60 }, (_, n) => publish(n)))
  const failed = results.flatMap((result) => (result.status === 'rejected' ? [String(result.reason)] : []))
  expect(failed).toEqual([])
  for (const consumer of names) expect(await subject.waiting(consumer)).toBe(1200)
})

test('L2 L4 a consumer that is registered while publishers with lockKeys are at work gets all messages of a key from its first one on', async () => {
  const subject = new LocalUnderTest(target, root, [], {
    ...{ subscriptions: 'registered', lockKeys: true, unrouted: 'ignore' },
  })
  const type = subject.name('type')
  await subject.start('billing', { [type]: () => undefined })
  const committed: string[] = []
  let isOver = false
  const publishers = Array.from({ length: 4 }, async (_, n) => {
    const next = randomFrom(70 + n)
    while (!isOver) {
      const transaction = await root.begin()
      try {
        const ids = [
          await subject.publishIn(transaction, { type, key: 'a' }),
          await subject.publishIn(transaction, { type, key: 'a', topic: 't' }),
        ]
        await sleep(next() * 4)
        // The lock is held until the transaction ends, so nobody else commits a message of the key now.
        committed.push(...ids)
        await transaction.commit()
      } catch (error) {
        await transaction.rollback().catch(() => undefined)
        // A registration and a publisher may conflict where the server locks what it reads.
        if (!isTxboxError(error) || error.code !== 'TXBOX_TRANSACTION_CONFLICT') throw error
      }
    }
  })
  await sleep(150)
  await subject.start('mailer', { [type]: () => undefined })
  await sleep(300)
  isOver = true
  await Promise.all(publishers)
  for (const consumer of ['billing', 'mailer']) await subject.settled(consumer)
  expect(await subject.effectsInOrder('billing')).toEqual(committed)
  const late = await subject.effectsInOrder('mailer')
  expect(late.length).toBeGreaterThan(0)
  expect(late).toEqual(committed.slice(-late.length))
  await target.sql(`delete from ${target.outboxTable}`)
})

test('L2 a publisher whose transaction stays open at READ COMMITTED blocks neither consumers nor the registration of another consumer', async () => {
  const subject = new LocalUnderTest(target, root, [], { subscriptions: 'registered' })
  const type = subject.name('type')
  await subject.start('billing', { [type]: () => undefined })
  // At REPEATABLE READ on MySQL and MariaDB a registration may wait for open publishers.
  const committed = target.open(mainKind(target), { isolation: 'read committed' })
  onTestFinished(() => committed.close())
  const open = await committed.begin()
  await subject.publishIn(open, { type, key: 'a' })
  const [id] = await subject.publish({ type, key: 'b' })
  await subject.hears('handled')
  await subject.start('mailer', { [type]: () => undefined })
  expect(await subject.effects(id)).toBe(1)
  await open.commit()
  await subject.settled('billing')
})
