import { expect, test } from 'vitest'
import { ReceiptExpiredError } from '@txbox/core'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target))

for (const key of [undefined, 'a']) {
  const kind = key === undefined ? 'without a key' : 'with a key'
  const sent = key === undefined ? {} : { key }

  test(`Q4 Q5 a received message is invisible until its timeout is over, by the database's clock, and is then received again: ${kind}`, async () => {
    const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 1000 })
    // Of two messages in two shards, a slow receive may return one.
    const ids = await subject.send(sent, ...(key === undefined ? [] : [sent]))
    const before = await target.now()
    const first = await subject.receive()
    const after = await target.now()
    expect(idsOf(first)).toEqual(ids.slice(0, 1))
    for (const { visibleAt, receives } of first) {
      expect(visibleAt.getTime()).toBeGreaterThanOrEqual(before.getTime() + 999)
      expect(visibleAt.getTime()).toBeLessThanOrEqual(after.getTime() + 1001)
      expect(receives).toBe(1)
    }
    const early = await subject.receive()
    if ((await target.now()) < first[0]!.visibleAt) expect(early).toEqual([])
    await target.past(first.at(-1)!.visibleAt)
    const again = await subject.receive()
    expect(idsOf(again).toSorted()).toEqual(idsOf(first).toSorted())
    expect(again.map(({ receives }) => receives)).toEqual(first.map(() => 2))
    await expect(subject.queue.delete(first[0]!)).rejects.toThrow(ReceiptExpiredError)
    for (const each of again) await subject.queue.delete(each)
    expect(await subject.drain()).toEqual(key === undefined ? [] : [ids[1]])
  })

  test(`Q6 changeVisibility counts from now, longer and shorter: ${kind}`, async () => {
    const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 1000 })
    const [id] = await subject.send(sent)
    const received = await subject.receiveOne()
    await subject.queue.changeVisibility(received, 3_600_000)
    await target.past(received.visibleAt)
    expect(await subject.receive()).toEqual([])
    await subject.queue.changeVisibility(received, 200)
    const [again] = await subject.receive({ waitMs: 5000 })
    expect(again).toMatchObject({ message: { id }, receives: 2 })
    await expect(subject.queue.changeVisibility(received, 1000)).rejects.toThrow(ReceiptExpiredError)
  })

  test(`Q6 Q9 changeVisibility of 0 makes the message visible at once, and ends the receipt: ${kind}`, async () => {
    const subject = new QueueUnderTest(target, root)
    const [id] = await subject.send(sent)
    const received = await subject.receiveOne()
    await subject.queue.changeVisibility(received, 0)
    await expect(subject.queue.delete(received)).rejects.toThrow(ReceiptExpiredError)
    expect(await subject.receive()).toMatchObject([{ message: { id }, receives: 2 }])
    expect(await subject.size()).toBe(1)
  })

  test(`Q11 release gives a message back at once or later, and with counted: false the receive does not count: ${kind}`, async () => {
    const subject = new QueueUnderTest(target, root, { maxReceives: 2 })
    const [id] = await subject.send(sent)
    for (let n = 0; n < 5; n += 1) {
      const received = await subject.receiveOne()
      expect(received).toMatchObject({ message: { id }, receives: 1 })
      await subject.queue.release(received, { counted: false })
    }
    const counted = await subject.receiveOne()
    expect(counted.receives).toBe(1)
    await subject.queue.release(counted, { delayMs: 300, error: new Error('busy') })
    expect(await subject.receive()).toEqual([])
    const [later] = await subject.receive({ waitMs: 5000 })
    expect(later).toMatchObject({ message: { id }, receives: 2 })
    await subject.queue.delete(later!)
    expect(await subject.size()).toBe(0)
  })
}

test('Q9 changeVisibility refuses a receipt whose timeout is over although another transaction has locked its message', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({ key: 'a' }, {})
  for (const received of await subject.receive()) {
    await subject.expire()
    // As a receiver does that is about to take the message.
    const other = await root.begin()
    await other.exec(`select place from ${subject.table} where due_at is not null for update`)
    await expect(subject.queue.changeVisibility(received, 60_000)).rejects.toThrow(ReceiptExpiredError)
    await other.rollback()
  }
  expect(await subject.receive()).toHaveLength(2)
})

test('Q6 Q10 changeVisibility of 0 does not count as an expired timeout: the message is not suspected of killing its consumers', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send({ key: 'a' })
  for (let n = 0; n < 3; n += 1) await subject.queue.changeVisibility(await subject.receiveOne(), 0)
  ids.push(...(await subject.send({ key: 'b' }, {})))
  expect(idsOf(await subject.receive()).toSorted()).toEqual(ids.toSorted())
})

test.each([2, 3, 10])(
  'Q10 a message that kills its consumers becomes a dead letter, and no other message does: maxReceives %d',
  async (maxReceives) => {
    const subject = new QueueUnderTest(target, root, { maxReceives })
    const ids = await subject.send({ key: 'a' }, { key: 'b' }, {}, { key: 'c' }, {})
    const [killer] = ids
    const handled: string[] = []
    for (let receives = 0; receives < 30 && (await subject.size()) > 0; receives += 1) {
      const received = await subject.receive({ limit: 10 })
      if (idsOf(received).includes(killer!)) await subject.expire()
      else for (const each of received) await subject.queue.delete(each)
      handled.push(...(idsOf(received).includes(killer!) ? [] : idsOf(received)))
    }
    expect((await subject.queue.deadLetters.list()).map(({ id }) => id)).toEqual([killer])
    expect(handled.toSorted()).toEqual(ids.slice(1).toSorted())
  },
)

test('Q4 the timeout of one receive is its own', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 60_000 })
  await subject.send({})
  const before = await target.now()
  const { visibleAt } = await subject.receiveOne({ visibilityTimeoutMs: 5000 })
  expect(visibleAt.getTime()).toBeLessThanOrEqual((await target.now()).getTime() + 5001)
  expect(visibleAt.getTime()).toBeGreaterThanOrEqual(before.getTime() + 4999)
})

test('Q4 receive waits for a message, returns as soon as there is one, and not much later than waitMs', async () => {
  const subject = new QueueUnderTest(target, root)
  const began = performance.now()
  expect(await subject.receive({ waitMs: 300 })).toEqual([])
  expect(performance.now() - began).toBeGreaterThanOrEqual(290)
  const waiting = subject.receive({ waitMs: 20_000 })
  await new Promise((resolve) => setTimeout(resolve, 100))
  const [id] = await subject.send({})
  expect(idsOf(await waiting)).toEqual([id])
})

test('Q4 the signal ends the wait of receive', async () => {
  const subject = new QueueUnderTest(target, root)
  const stopping = new AbortController()
  const waiting = subject.receive({ waitMs: 20_000, signal: stopping.signal })
  const began = performance.now()
  setTimeout(() => stopping.abort(), 100)
  expect(await waiting).toEqual([])
  expect(performance.now() - began).toBeLessThan(5000)
  await subject.send({})
  expect(await subject.receive({ waitMs: 1000, signal: stopping.signal })).toEqual([])
  expect(await subject.receive()).toHaveLength(1)
})

test('Q2 a message that was scheduled for the first instant of 1970 is not mistaken for a handled message', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send({ deliverAt: new Date(0), key: 'a' }, { deliverAt: new Date(1) })
  expect(sortedIds(await subject.drain())).toEqual(sortedIds(ids))
})

test('Q4 a database that cannot be reached is an error of receive, not an empty queue', async () => {
  const closed = target.open(mainKind(target), { as: { database: 'no_such_database' } })
  const subject = new QueueUnderTest(target, closed)
  const error = await subject.receive({ waitMs: 1000 }).catch((each: unknown) => each)
  expect(error).toMatchObject({
    code: expect.stringMatching(/^TXBOX_DATABASE_(ACCESS|UNAVAILABLE)$/) as string,
  })
  await closed.close()
})

test('Q5 a message is received again before any later message of its key, and messages of other keys do not wait for it', async () => {
  const subject = new QueueUnderTest(target, root)
  const [first, second, elsewhere] = await subject.send({ key: 'a' }, { key: 'a' }, { key: 'b' })
  expect(idsOf(await subject.receive()).toSorted()).toEqual(sortedIds([first, elsewhere]))
  await subject.expire()
  const again = await subject.receive()
  expect(idsOf(again).toSorted()).toEqual(sortedIds([first, elsewhere]))
  expect(again.map(({ receives }) => receives)).toEqual([2, 2])
  for (const each of again) await subject.queue.delete(each)
  expect(await subject.drain()).toEqual([second])
})
