import { expect, test } from 'vitest'
import { ReceiptExpiredError } from '@txbox/core'
import { keysOfOneShard } from '../../support/subjects/keys.ts'
import { QueueUnderTest, idsOf, sortedIds } from '../../support/subjects/queue-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 8 })
const ALL_SHARDS = Array.from({ length: 16 }, (_, shard) => shard)
const [one, other] = keysOfOneShard(2) as [string, string]

test('Q13 receive waits for no lock: of a work transaction, of a sender, of another receiver', async () => {
  const subject = new QueueUnderTest(target, root)
  const [held] = await subject.send({ key: one }, { key: one }, {})
  const received = await subject.receive({ limit: 2 })
  const work = await root.begin()
  for (const each of received) await subject.queue.delete(each, { tx: work.tx })
  const sending = await root.begin()
  await subject.sendIn(sending, { key: other })
  const [id] = await subject.send({ key: other }, { key: other })
  const began = performance.now()
  expect(idsOf(await subject.receive())).toEqual([id])
  expect(performance.now() - began).toBeLessThan(2000)
  await sending.commit()
  await work.rollback()
  expect(held).toBeDefined()
})

test('Q3 Q8 a message with an expired lease whose work transaction is open keeps an earlier message of its key waiting', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 1000 })
  const late = await root.begin()
  const { id: lower } = await subject.sendIn(late, { key: one })
  await subject.send({ key: one })
  const higher = await subject.receiveOne()
  const work = await root.begin()
  await subject.queue.delete(higher, { tx: work.tx })
  await target.past(higher.visibleAt)
  await late.commit()
  expect(await subject.receive()).toEqual([])
  expect(await subject.receive({ waitMs: 100 })).toEqual([])
  await work.commit()
  expect(await subject.drain()).toEqual([lower])
  expect(await subject.size()).toBe(0)
})

test('Q13 receive holds no lock while a message is handled: other transactions write its key, and receive', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send({ key: one }, { key: other })
  const received = await subject.receive({ limit: 1 })
  await subject.send({ key: one })
  expect(await subject.receive()).toHaveLength(1)
  await subject.queue.delete(received[0]!)
  expect(await subject.receive()).toHaveLength(1)
})

test('Q18 with remove, messages are deleted by the receive that hands them out', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send({ key: one }, { key: one }, {}, { key: other })
  const first = await subject.receive({ remove: true })
  expect(idsOf(first).toSorted()).toEqual(sortedIds([ids[0], ids[2], ids[3]]))
  expect(await subject.size()).toBe(1)
  for (const each of first) await expect(subject.queue.release(each)).rejects.toThrow(ReceiptExpiredError)
  expect(idsOf(await subject.receive({ remove: true }))).toEqual([ids[1]])
  expect(await subject.size()).toBe(0)
  expect(await subject.receive({ remove: true })).toEqual([])
})

test('Q18 removed messages are handed out once, also to concurrent receivers', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.sendTogether(
    Array.from({ length: 40 }, (_, n) => ({ key: n % 2 === 0 ? one : other })),
  )
  const seen: string[] = []
  const work = async (): Promise<void> => {
    for (let empty = 0; empty < 3;) {
      const received = await subject.twin(root).receive({ remove: true, limit: 3, waitMs: 30 })
      empty = received.length === 0 ? empty + 1 : 0
      seen.push(...idsOf(received))
    }
  }
  await Promise.all([work(), work(), work()])
  expect(seen.toSorted()).toEqual(ids.toSorted())
})

test('Q19 any number of receivers share the messages: each goes to one of them', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.sendTogether(
    Array.from({ length: 300 }, (_, n) => (n % 3 === 0 ? {} : { key: `k${n % 31}` })),
  )
  const handled: string[] = []
  const work = async (): Promise<void> => {
    const queue = subject.twin(root)
    while (handled.length < ids.length) {
      for (const each of await queue.receive({ limit: 4, waitMs: 20 })) {
        handled.push(each.message.id)
        await queue.delete(each)
      }
    }
  }
  await Promise.all(Array.from({ length: 6 }, work))
  expect(handled.toSorted()).toEqual(ids.toSorted())
  expect(await subject.size()).toBe(0)
})

test('Q19 the messages of a lost receiver are received again after their timeout, and the other receivers continue', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 1000 })
  const [first, second] = await subject.send({ key: one }, { key: one })
  const lost = await subject.receiveOne()
  expect(lost.message.id).toBe(first)
  const others = await subject.send({ key: other }, {})
  const rest = await subject.receive()
  expect(idsOf(rest).toSorted()).toEqual(others.toSorted())
  for (const each of rest) await subject.queue.delete(each)
  await target.past(lost.visibleAt)
  expect(await subject.drain()).toEqual([first, second])
  expect(await subject.size()).toBe(0)
})

test('Q20 if the first message of a key waits and its follower loses its lease, both are received in order', async () => {
  const subject = new QueueUnderTest(target, root)
  const late = await root.begin()
  const { id: lower } = await subject.sendIn(late, { key: one })
  const [higher] = await subject.send({ key: one })
  expect(idsOf(await subject.receive())).toEqual([higher])
  await late.commit()
  // The lower one is put back behind the higher one, which is in flight.
  expect(await subject.receive()).toEqual([])
  await subject.expire()
  expect(await subject.drain()).toEqual([lower, higher])
})

test.for(['deleted', 'released', 'buried', 'dead by its receives'] as const)(
  'Q20 the next waiting message of a key is received when the message before it was %s',
  async (how) => {
    const subject = new QueueUnderTest(target, root, { maxReceives: 1 })
    const [first, second, last] = await subject.send({ key: one }, { key: one }, { key: one })
    const received = await subject.receiveOne()
    expect(await subject.receive()).toEqual([])
    if (how === 'deleted') await subject.queue.delete(received)
    if (how === 'released') await subject.queue.release(received, { counted: false })
    if (how === 'buried') await subject.queue.bury(received, { error: 'x' })
    if (how === 'dead by its receives') await subject.expire()
    expect(await subject.drain()).toEqual(how === 'released' ? [first, second, last] : [second, last])
    expect(await subject.size()).toBe(0)
  },
)

test('Q20 a redriven dead letter and a waiting message of its key are both received', async () => {
  const subject = new QueueUnderTest(target, root)
  const [first, second] = await subject.send({ key: one }, { key: one })
  await subject.queue.bury(await subject.receiveOne(), { error: 'x' })
  const held = await subject.receiveOne()
  expect(held.message.id).toBe(second)
  await subject.queue.deadLetters.redrive({ ids: [first!] })
  expect(await subject.receive()).toEqual([])
  await subject.queue.release(held)
  expect(await subject.drain()).toEqual([first, second])
})

test('Q20 discarding or purging the first message of a key leaves no key stuck', async () => {
  const subject = new QueueUnderTest(target, root)
  const [, second] = await subject.send({ key: one }, { key: one }, { key: one })
  const held = await subject.receiveOne()
  expect(await subject.receive()).toEqual([])
  expect(await subject.queue.purge()).toEqual({ removed: 2 })
  await subject.queue.delete(held)
  const [next] = await subject.send({ key: one })
  expect(await subject.drain()).toEqual([next])
  expect(second).toBeDefined()
})

test('Q13 a receive returns 16 MiB of payloads at most, and a later receive the other messages', async () => {
  const subject = new QueueUnderTest(target, root)
  const payload = Buffer.alloc(5 * 1024 * 1024)
  const ids: string[] = []
  // A transaction each: a statement must fit into a packet.
  for (const key of [one, other, undefined, ...keysOfOneShard(1, 7)]) {
    ids.push(...(await subject.send({ key, payload })))
  }
  const received = await subject.receive({ limit: 100 })
  expect(received).toHaveLength(3)
  const more = await subject.receive({ limit: 100 })
  expect(idsOf([...received, ...more]).toSorted()).toEqual(sortedIds(ids))
  for (const each of [...received, ...more]) await subject.queue.delete(each)
  expect(await subject.size()).toBe(0)
})

test('Q13 large messages behind many small ones of a shard count, too, and a message that is larger than the remaining room comes later', async () => {
  const subject = new QueueUnderTest(target, root)
  const keys = keysOfOneShard(24)
  const ids = await subject.send(...keys.slice(0, 20).map((key) => ({ key })))
  const payload = Buffer.alloc(5 * 1024 * 1024)
  for (const key of keys.slice(20)) ids.push(...(await subject.send({ key, payload })))
  const received = await subject.receive({ limit: 100 })
  expect(idsOf(received)).toEqual(ids.slice(0, 23))
  const last = await subject.receive({ limit: 100 })
  expect(idsOf(last)).toEqual(ids.slice(23))
  for (const each of [...received, ...last]) await subject.queue.delete(each)
})

test('Q4 a slow receive returns the messages that it has, long before their visibility timeout ends', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 4000 })
  await subject.send(...ALL_SHARDS.flatMap((shard) => keysOfOneShard(1, shard)).map((key) => ({ key })))
  await subject.receive({ limit: 1 }).then(([first]) => subject.queue.delete(first!))
  const slowDown =
    target.engine === 'postgres'
      ? [
          `create function txbox.slow() returns trigger language plpgsql as $$
             begin perform pg_sleep(0.3); return new; end $$`,
          `create trigger slow before update on txbox.queue for each row
             when (new.receipt is not null) execute function txbox.slow()`,
        ]
      : ['create trigger txbox_slow before update on txbox_queue for each row do sleep(0.3)']
  for (const statement of slowDown) await target.sql(statement)
  const began = performance.now()
  const received = await subject.receive({ limit: 100 })
  expect(performance.now() - began).toBeLessThan(3000)
  await target.sql(
    target.engine === 'postgres' ? 'drop function txbox.slow cascade' : 'drop trigger txbox_slow',
  )
  expect(received.length).toBeGreaterThan(0)
  for (const each of received) await subject.queue.delete(each)
  expect(await subject.drain()).toHaveLength(15 - received.length)
})
