import { expect, test } from 'vitest'
import { InvalidOptionError, ReceiveAttemptError, ReceiptExpiredError } from '@txbox/core'
import type { Received } from '@txbox/queue'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
const messages = [...keysOfOneShard(2), ...keysOfOneShard(2, 5), undefined, undefined].map((key) =>
  key === undefined ? {} : { key },
)

test('Q14 an attempt id is 1 to 128 characters from ! to ~', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({})
  for (const attemptId of ['', ' ', 'a b', 'x'.repeat(129), 'ü', 'a\n', '\u007f', 7, null]) {
    const receiving = subject.receive({ attemptId: attemptId as string })
    await expect(receiving).rejects.toThrow(InvalidOptionError)
    await expect(receiving).rejects.toThrow(/1 to 128 visible ASCII characters/)
  }
  expect(await subject.receive({ attemptId: '!'.repeat(64) + '~'.repeat(64) })).toHaveLength(1)
})

test('Q14 a receive without an attempt id is never repeated', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({})
  expect(await subject.receive()).toHaveLength(1)
  expect(await subject.receive()).toEqual([])
})

test('Q15 the same id again gives the same messages with the same receipts, and their timeout begins again', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 60_000 })
  const ids = await subject.send(...messages)
  const first = await subject.receive({ attemptId: 'x' })
  expect(idsOf(first).toSorted()).toEqual(ids.toSorted())
  const between = await target.now()
  await target.past(new Date(between.getTime() + 20))
  const again = await subject.twin(root).receive({ attemptId: 'x', visibilityTimeoutMs: 90_000 })
  expect(byId(again, withoutTime)).toEqual(byId(first, withoutTime))
  for (const { visibleAt } of again) expect(visibleAt.getTime()).toBeGreaterThan(between.getTime() + 89_000)
  expect(again.map(({ receives }) => receives)).toEqual(again.map(() => 1))
  expect(byId(await subject.receive({ attemptId: 'x' }), withoutTime)).toEqual(byId(first, withoutTime))
  for (const each of first) await subject.queue.delete(each)
  expect(await subject.size()).toBe(0)
})

test('Q15 repeats at the same time get one answer: the later ones wait for the first', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send(...messages)
  const answers = await Promise.all(
    Array.from({ length: 4 }, () => subject.receive({ attemptId: 'x', waitMs: 2000 })),
  )
  for (const answer of answers) {
    expect(byId(answer, withoutTime)).toEqual(byId(answers[0]!, withoutTime))
    expect(idsOf(answer).toSorted()).toEqual(ids.toSorted())
  }
})

const CHANGES: Record<string, (subject: QueueUnderTest, received: Received) => Promise<unknown>> = {
  deleted: ({ queue }, received) => queue.delete(received),
  released: ({ queue }, received) => queue.release(received),
  'released for later': ({ queue }, received) => queue.release(received, { delayMs: 60_000 }),
  buried: ({ queue }, received) => queue.bury(received, { error: 'x' }),
  'made visible': ({ queue }, received) => queue.changeVisibility(received, 0),
  'given another visibility timeout': ({ queue }, received) => queue.changeVisibility(received, 50_000),
  'received again': async (subject, received) => {
    await subject.queue.changeVisibility(received, 0)
    await subject.receive()
  },
}

for (const [how, change] of Object.entries(CHANGES)) {
  for (const index of [0, messages.length - 1]) {
    const having = index === 0 ? 'with a key' : 'without a key'
    test(`Q16 if one of the messages was ${how}, the repeat is refused and hands nothing out: ${having}`, async () => {
      const subject = new QueueUnderTest(target, root)
      const ids = await subject.send(...messages)
      const received = await subject.receive({ attemptId: 'x' })
      const changed = received.find(({ message }) => message.id === ids[index])!
      await change(subject, changed)
      const before = await subject.sql(`select * from ${subject.table} where topic = ? order by place`)
      for (let n = 0; n < 2; n += 1) {
        await expect(subject.receive({ attemptId: 'x' })).rejects.toThrow(ReceiveAttemptError)
      }
      expect(await subject.sql(`select * from ${subject.table} where topic = ? order by place`)).toEqual(
        before,
      )
      for (const each of received) if (each !== changed) await subject.queue.delete(each)
    })
  }
}

test('Q16 while a transaction that deletes one of the messages is open, the repeat hands out nothing', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({ key: 'a' }, {})
  const received = await subject.receive({ attemptId: 'x' })
  const work = await root.begin()
  await subject.queue.delete(received[0]!, { tx: work.tx })
  const repeated = subject.receive({ attemptId: 'x' }).catch((error: unknown) => error)
  const early = await Promise.race([repeated, new Promise((resolve) => setTimeout(resolve, 300, 'waits'))])
  if (early !== 'waits') expect(early).toBeInstanceOf(Error)
  await work.commit()
  expect(await repeated).toBeInstanceOf(Error)
  await subject.queue.delete(received[1]!)
})

test('Q16 after the visibility timeout of its messages an attempt id counts as new', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 1000 })
  const ids = await subject.send(...messages)
  const first = await subject.receive({ attemptId: 'x' })
  await target.past(latest(first))
  const again = await subject.receive({ attemptId: 'x', visibilityTimeoutMs: 60_000 })
  expect(idsOf(again).toSorted()).toEqual(ids.toSorted())
  expect(again.map(({ receives }) => receives)).toEqual(ids.map(() => 2))
  for (const each of first) await expect(subject.queue.delete(each)).rejects.toThrow(ReceiptExpiredError)
  expect(byId(await subject.receive({ attemptId: 'x' }), withoutTime)).toEqual(byId(again, withoutTime))
})

test('Q16 five minutes after the first receive an attempt id counts as new', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 3_600_000 })
  const ids = await subject.send({ key: 'a' }, { key: 'b' })
  const first = await subject.receive({ attemptId: 'x', limit: 1 })
  const claim = (await target.claims('@receive')).find(({ key }) => key.includes(subject.queue.name))
  expect(claim!.expiresAt.getTime() - claim!.processedAt.getTime()).toBe(300_000)
  await subject.receive({ attemptId: 'x', limit: 1 })
  const same = (await target.claims('@receive')).find(({ key }) => key.includes(subject.queue.name))
  expect(same!.expiresAt).toEqual(claim!.expiresAt)
  await target.expire('@receive', claim!.key)
  const second = await subject.receive({ attemptId: 'x', limit: 1 })
  expect(sortedIds([...idsOf(first), ...idsOf(second)])).toEqual(ids.toSorted())
})

test('Q17 an empty answer is not remembered', async () => {
  const subject = new QueueUnderTest(target, root)
  expect(await subject.receive({ attemptId: 'x' })).toEqual([])
  expect((await target.claims('@receive')).filter(({ key }) => key.includes(subject.queue.name))).toEqual([])
  const [id] = await subject.send({})
  expect(idsOf(await subject.receive({ attemptId: 'x' }))).toEqual([id])
})

test('Q17 another attempt id gets none of the messages while they are invisible, and an attempt id belongs to one queue', async () => {
  const [subject, other] = [new QueueUnderTest(target, root), new QueueUnderTest(target, root)]
  await subject.send(...messages)
  const [elsewhere] = await other.send({})
  expect(await subject.receive({ attemptId: 'x' })).toHaveLength(messages.length)
  expect(await subject.receive({ attemptId: 'y' })).toEqual([])
  expect(await subject.receive({ attemptId: 'X' })).toEqual([])
  expect(idsOf(await other.receive({ attemptId: 'x' }))).toEqual([elsewhere])
})

test('Q17 receives with ids keep the order of a key, and fill their limit from several shards', async () => {
  const subject = new QueueUnderTest(target, root)
  const sent = await subject.sendTogether(
    Array.from({ length: 60 }, (_, n) => ({ key: `k${n % 20}`, payload: n })),
  )
  const seen: string[] = []
  for (let n = 0; seen.length < sent.length && n < 100; n += 1) {
    const received = await subject.receive({ attemptId: `attempt-${n}`, limit: 7 })
    expect(received.length).toBeLessThanOrEqual(7)
    for (const each of received) {
      seen.push(each.message.id)
      await subject.queue.delete(each)
    }
  }
  expect(seen.toSorted()).toEqual(sent.toSorted())
  for (let key = 0; key < 20; key += 1) {
    const ofKey = sent.filter((_, n) => n % 20 === key)
    expect(seen.filter((id) => ofKey.includes(id))).toEqual(ofKey)
  }
})

function latest(received: readonly Received[]): Date {
  return new Date(Math.max(...received.map(({ visibleAt }) => visibleAt.getTime())))
}

function withoutTime({ receipt, message, key, receives }: Received): unknown {
  return { receipt, message, key, receives }
}

function byId(received: readonly Received[], view: (one: Received) => unknown): unknown {
  return received.toSorted((a, b) => (a.message.id < b.message.id ? -1 : 1)).map(view)
}
