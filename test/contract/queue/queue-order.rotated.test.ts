import { expect, test } from 'vitest'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))
const [one, other, third] = keysOfOneShard(3) as [string, string, string]

for (const isSeen of [false, true]) {
  const when = isSeen ? 'and a receiver has seen it' : 'and no receiver has seen it'
  test(`Q3 a message that waits for its retry keeps later ones of its key back; an earlier one that committed late ${when} is received at the latest with the retry, and before it`, async () => {
    const subject = new QueueUnderTest(target, root)
    const late = await root.begin()
    const { id: earlier } = await subject.sendIn(late, { key: 'a' })
    const [retried, later] = await subject.send({ key: 'a' }, { key: 'a' })
    const received = await subject.receiveOne()
    expect(received.message.id).toBe(retried)
    await late.commit()
    if (isSeen) expect(await subject.receive()).toEqual([])
    await subject.queue.release(received, { delayMs: 700 })
    const order: string[] = []
    while (order.length < 3) {
      const [next, ...others] = await subject.receive({ waitMs: 5000 })
      expect(others).toEqual([])
      order.push(next!.message.id)
      expect(await subject.receive()).toEqual([])
      await subject.queue.delete(next!)
    }
    expect(order).toEqual([earlier, retried, later])
  })
}

test('Q2 messages of one key are received in the order of the calls, by several calls and within one', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send(...Array.from({ length: 4 }, () => ({ key: one })))
  ids.push(...(await subject.sendTogether(Array.from({ length: 20 }, () => ({ key: one })))))
  ids.push(...(await subject.send({ key: one })))
  expect(await subject.drain()).toEqual(ids)
})

test('Q2 a message that commits late does not come before an earlier one of its key in flight', async () => {
  const subject = new QueueUnderTest(target, root)
  const late = await root.begin()
  const { id: lower } = await subject.sendIn(late, { key: one })
  const [higher] = await subject.send({ key: one })
  const received = await subject.receiveOne()
  expect(received.message.id).toBe(higher)
  await late.commit()
  expect(await subject.receive()).toEqual([])
  await subject.queue.delete(received)
  expect(await subject.drain()).toEqual([lower])
})

for (const isEarlier of [false, true]) {
  const other = isEarlier ? 'an earlier' : 'a later'
  for (const ends of ['commits', 'rolls back'] as const) {
    test(`Q20 while a transaction that deletes a message is open, ${other} message of the key is committed, and a receiver puts it back; the transaction ${ends}: the key goes on in order`, async () => {
      const subject = new QueueUnderTest(target, root)
      const late = await root.begin()
      const sendLate = (): Promise<{ readonly id: string }> => subject.sendIn(late, { key: one })
      const sentBefore = isEarlier ? await sendLate() : undefined
      const [id] = await subject.send({ key: one })
      const received = await subject.receiveOne()
      const work = await root.begin()
      await subject.queue.delete(received, { tx: work.tx })
      const { id: otherId } = sentBefore ?? (await sendLate())
      await late.commit()
      // The transaction with the deletion cannot see this, so that it could not wake the other message.
      expect(await subject.receive()).toEqual([])
      expect(await subject.size('and due_at is null')).toBe(1)
      if (ends === 'commits') {
        await work.commit()
        expect(await subject.drain()).toEqual([otherId])
      } else {
        await work.rollback()
        await subject.queue.release(received)
        expect(await subject.drain()).toEqual(isEarlier ? [otherId, id] : [id, otherId])
      }
    })
  }
}

test('Q2 messages without a key have no order, and all are received at once', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.sendTogether(Array.from({ length: 40 }, () => ({})))
  const received = await subject.receive({ limit: 1000 })
  expect(idsOf(received).toSorted()).toEqual(ids.toSorted())
})

test('Q2 receive returns no more than limit', async () => {
  const subject = new QueueUnderTest(target, root)
  const messages = Array.from({ length: 25 }, (_, n) => (n % 2 === 0 ? {} : { key: `k${n}` }))
  const ids = await subject.sendTogether(messages)
  const parts = [
    await subject.receive({ limit: 3 }),
    await subject.receive(),
    await subject.receive({ limit: 30 }),
  ]
  expect(parts.map(({ length }) => length)).toEqual([3, 10, 12])
  expect(parts.flatMap(idsOf).toSorted()).toEqual(ids.toSorted())
})

test('Q2 a scheduled message is never early, and has no place in the order of its key', async () => {
  const subject = new QueueUnderTest(target, root)
  const deliverAt = new Date((await target.now()).getTime() + 700)
  const [scheduled, next] = await subject.send({ key: one, deliverAt }, { key: one })
  const first = await subject.receive({ limit: 1000 })
  if ((await target.now()) < deliverAt) expect(idsOf(first)).toEqual([next])
  const [waited] = await subject.receive({ waitMs: 5000 })
  expect(waited?.message.id).toBe(scheduled)
  expect(waited?.key).toBe(one)
  expect((await target.now()).getTime()).toBeGreaterThanOrEqual(deliverAt.getTime())
  expect(waited!.visibleAt.getTime()).toBeGreaterThanOrEqual(deliverAt.getTime() + 30_000)
})

test('Q2 a scheduled message whose time has come does not wait for its key, and its key does not wait for it', async () => {
  const subject = new QueueUnderTest(target, root)
  const past = new Date((await target.now()).getTime() - 1000)
  const ids = await subject.send({ key: one, deliverAt: past }, { key: one }, { key: one, deliverAt: past })
  expect(idsOf(await subject.receive()).toSorted()).toEqual(ids.toSorted())
})

test('Q3 at most one message of a key is in flight, for any limit and any number of receivers', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.sendTogether([one, one, other, one, third].map((key) => ({ key })))
  const received = await subject.receive({ limit: 1000 })
  expect(idsOf(received).toSorted()).toEqual(sortedIds([ids[0], ids[2], ids[4]]))
  expect(await subject.twin(root).receive({ limit: 1000 })).toEqual([])
  const first = received.find(({ key }) => key === one)!
  await subject.queue.delete(first)
  expect(idsOf(await subject.receive({ limit: 1000 }))).toEqual([ids[1]])
})

test('Q3 while a message waits for its retry, no other message of its key is received, and messages of other keys are', async () => {
  const subject = new QueueUnderTest(target, root)
  const [first, , elsewhere] = await subject.send({ key: one }, { key: one }, { key: other })
  const refused = (await subject.receive({ limit: 1000 })).find(({ key }) => key === one)
  await subject.queue.release(refused!, { delayMs: 60_000, error: new Error('later') })
  await subject.expire()
  expect(idsOf(await subject.receive({ limit: 1000 }))).toEqual([elsewhere])
  await retryNow(subject)
  expect(idsOf(await subject.receive({ limit: 1000 }))).toEqual([first])
})

test('Q3 other keys are received, however many messages wait behind a key', async () => {
  const subject = new QueueUnderTest(target, root)
  const many = await subject.sendTogether(Array.from({ length: 3000 }, () => ({ key: one })))
  const [held] = await subject.receive()
  expect(held?.message.id).toBe(many[0])
  const [id] = await subject.send({ key: other })
  expect(idsOf(await subject.receive({ limit: 5 }))).toEqual([id])
  await subject.queue.delete(held!)
  expect(idsOf(await subject.receive({ limit: 5 }))).toEqual([many[1]])
})

test('Q3 queues with other names share neither messages nor keys', async () => {
  const subjects = ['', '0', '/00', '%', '_'].map(
    (suffix) => new QueueUnderTest(target, root, { name: `shared${suffix}` }),
  )
  for (const subject of subjects) {
    await subject.send({ key: one, id: subject.queue.name })
  }
  for (const subject of subjects) {
    expect(idsOf(await subject.receive({ limit: 1000 }))).toEqual([subject.queue.name])
  }
  for (const subject of subjects) await subject.queue.purge()
})

/** Lets what waits for its retry be due. */
async function retryNow(subject: QueueUnderTest): Promise<void> {
  const now = target.engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
  await subject.sql(
    `update ${subject.table} set due_at = ${now} where topic = ? and due_at > ${now} and receipt is null`,
  )
}
