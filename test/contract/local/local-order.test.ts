import { setTimeout as sleep } from 'node:timers/promises'
import { RetryLaterError } from '@txbox/consumer'
import { expect, onTestFinished, test } from 'vitest'
import type { LocalHandler } from '../../support/subjects/local-parts.ts'
import { LocalUnderTest } from '../../support/subjects/local-under-test.ts'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { mainKind, useRoot, useTarget, type Root } from '../../support/engines/target.ts'
import { randomFrom } from '../../support/worlds/random.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 30 })
const KEYS = [...keysOfOneShard(3), 'b', 'c']

/** A pool of its own, as another process has it. */
function otherRoot(): Root {
  const other = target.open(mainKind(target), { max: 8 })
  onTestFinished(() => other.close())
  return other
}

/** A handler that takes some time, and fails now and then. */
function flaky(seed: number): LocalHandler {
  const next = randomFrom(seed)
  return async (_tx, _message, { deliveries }) => {
    const chance = next()
    await sleep(chance * 8)
    if (chance < 0.15 && deliveries < 5) throw new Error('flaky')
    if (chance < 0.2) throw new RetryLaterError({ retryAfterMs: 5 })
    if (chance < 0.25) throw new RetryLaterError({ retryAfterMs: 80 })
  }
}

async function expectOrder(
  subject: LocalUnderTest,
  sent: readonly { readonly id: string; readonly key: string | undefined }[],
  consumer = 'billing',
): Promise<void> {
  const effects = await subject.effectsInOrder(consumer)
  expect(effects.toSorted()).toEqual(sent.map(({ id }) => id).toSorted())
  for (const key of new Set(sent.map((message) => message.key))) {
    if (key === undefined) continue
    const ids = sent.filter((message) => message.key === key).map(({ id }) => id)
    expect(
      effects.filter((id) => ids.includes(id)),
      key,
    ).toEqual(ids)
  }
  expect(subject.violations).toEqual([])
}

for (const inOnePool of [true, false]) {
  const where = inOnePool ? 'one pool' : 'pools of their own'
  test(`L4 three consumers of one name, with ${where}: one message of a key at a time, in order, each with one effect, whatever fails`, async () => {
    const subject = new LocalUnderTest(target, root)
    for (let n = 0; n < 3; n += 1) {
      const options = { concurrency: 4, retry: { attempts: 20, delayMs: () => 10 } }
      await subject.start('billing', flaky(n), options, inOnePool ? root : otherRoot())
    }
    const sent: { id: string; key: string | undefined }[] = []
    for (let round = 0; round < 6; round += 1) {
      const messages = Array.from({ length: 20 }, (_, n) => ({ key: [...KEYS, undefined][n % 6] }))
      const ids =
        round % 2 === 0 ? await subject.publish(...messages) : await subject.publishTogether(messages)
      sent.push(...ids.map((id, n) => ({ id, key: messages[n]!.key })))
    }
    await subject.settled()
    await expectOrder(subject, sent)
    expect(subject.heardOf('dead-lettered')).toEqual([])
    expect(subject.heardOf('retried').length).toBeGreaterThan(0)
  })
}

test('L4 the order of a key holds for each consumer by itself', async () => {
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'])
  const messages = Array.from({ length: 60 }, (_, n) => ({ key: KEYS[n % KEYS.length] }))
  const ids = await subject.publish(...messages)
  const sent = ids.map((id, n) => ({ id, key: messages[n]!.key }))
  const retry = { attempts: 20, delayMs: () => 10 }
  for (const [n, consumer] of ['billing', 'mailer'].entries()) {
    await subject.start(consumer, flaky(50 + n), { retry })
  }
  for (const consumer of ['billing', 'mailer']) {
    await subject.settled(consumer)
    await expectOrder(subject, sent, consumer)
  }
})

test('L4 messages of a key that waits for a retry stay behind it, also those that a consumer finds later', async () => {
  const subject = new LocalUnderTest(target, root)
  const [failing, second] = await subject.publish({ key: 'a' }, { key: 'a' })
  const consumer = await subject.start(
    'billing',
    (_tx, { id }, { deliveries }) => {
      if (id === failing && deliveries < 3) throw new Error('not yet')
    },
    { retry: { attempts: 5, delayMs: () => 400 } },
  )
  await subject.hears('retried')
  const [third] = await subject.publish({ key: 'a' })
  await consumer.stop()
  const [fourth] = await subject.publish({ key: 'a' })
  await subject.start('billing', () => undefined)
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual([failing, second, third, fourth])
  expect(subject.runsOf(failing).at(-1)?.deliveries).toBeGreaterThan(1)
})

test('L4 a message whose row another transaction has locked is looked at again within a second; its key waits, and others do not', async () => {
  const subject = new LocalUnderTest(target, root)
  const [one, other] = KEYS as [string, string]
  const [locked, behind] = await subject.publish({ key: one }, { key: one })
  const holder = await root.begin()
  await subject.lockRow(holder, locked)
  await subject.start('billing')
  const [free] = await subject.publish({ key: other })
  await subject.hears('handled')
  expect(subject.runs.map(({ id }) => id)).toEqual([free])
  // Longer than the pause between two looks.
  await sleep(1500)
  expect(subject.runs.map(({ id }) => id)).toEqual([free])
  await holder.rollback()
  const unlocked = performance.now()
  await subject.hears('handled', 3)
  expect(subject.runs[1]!.at - unlocked).toBeLessThan(2000)
  expect(await subject.effectsInOrder()).toEqual([free, locked, behind])
  expect(subject.runs.every(({ deliveries }) => deliveries === 1)).toBe(true)
  expect(
    ['retried', 'lost', 'error', 'unavailable'].map((event) => subject.heardOf(event as 'lost').length),
  ).toEqual([0, 0, 0, 0])
})

test('L4 with lockKeys, transactions of one key that overlap are handled in the order of their commits', async () => {
  const subject = new LocalUnderTest(target, root, ['billing', 'mailer'], { lockKeys: true })
  for (const consumer of ['billing', 'mailer']) await subject.start(consumer)
  const committed: string[] = []
  const publishers = Array.from({ length: 5 }, async (_, n) => {
    const next = randomFrom(900 + n)
    for (let round = 0; round < 6; round += 1) {
      const transaction = await root.begin()
      const ids = [
        await subject.publishIn(transaction, { key: 'a' }),
        await subject.publishIn(transaction, { key: 'a', topic: 't' }),
      ]
      await sleep(next() * 10)
      // The lock is held until the transaction ends, so nobody else commits a message of the key now.
      if (next() < 0.3) await transaction.rollback()
      else {
        committed.push(...ids)
        await transaction.commit()
      }
    }
  })
  await Promise.all(publishers)
  for (const consumer of ['billing', 'mailer']) {
    await subject.settled(consumer)
    expect(await subject.effectsInOrder(consumer)).toEqual(committed)
  }
})

test('L4 a transaction that commits late does not hold back other keys, and its messages are handled in their order', async () => {
  const subject = new LocalUnderTest(target, root)
  await subject.start('billing')
  const [one, other] = KEYS as [string, string]
  const late = await root.begin()
  const first = await subject.publishIn(late, { key: one })
  const before = await subject.publish(...Array.from({ length: 40 }, () => ({ key: other })))
  await subject.hears('handled', 40)
  const second = await subject.publishIn(late, { key: one })
  await late.commit()
  await subject.settled()
  expect(await subject.effectsInOrder()).toEqual([...before, first, second])
})
