import { expect, test } from 'vitest'
import { Client } from 'pg'
import { QueueUnderTest, idsOf, sortedIds } from '../support/subjects/queue-under-test.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'

// PostgreSQL takes messages without a key by one statement, and without the lock of a shard.

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 8 })
const MEGABYTE = 1024 * 1024

test('Q4 receivers that take messages without a key at the same time get each message once', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send(...Array.from({ length: 600 }, () => ({})))
  const receiving = async (): Promise<string[]> => {
    const mine: string[] = []
    for (;;) {
      const received = await subject.receive({ limit: 7 })
      if (received.length === 0) return mine
      mine.push(...idsOf(received))
    }
  }
  const received = (await Promise.all(Array.from({ length: 6 }, receiving))).flat()
  expect(received.toSorted()).toEqual(sortedIds(ids))
  expect(await subject.receive({ limit: 1000 })).toEqual([])
})

test('Q19 messages without a key do not keep a receiver from messages with a key', async () => {
  const subject = new QueueUnderTest(target, root)
  await subject.send(...Array.from({ length: 200 }, () => ({})))
  const keyed = await subject.send({ key: 'a' }, { key: 'b' })
  const received: string[] = []
  // A receive that begins with the shards visits them in random order; that of messages without a key is among them.
  for (let receive = 0; receive < 36; receive++) received.push(...idsOf(await subject.receive({ limit: 5 })))
  expect(received).toHaveLength(180)
  expect(received).toEqual(expect.arrayContaining(keyed))
})

test('one receive returns messages with a key and without', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send({}, { key: 'a' }, {}, { key: 'b' })
  expect(idsOf(await subject.receive({ limit: 10 })).toSorted()).toEqual(sortedIds(ids))
})

test('Q10 a message without a key whose lease ran out twice is received alone, although others keep coming', async () => {
  const subject = new QueueUnderTest(target, root, { visibilityTimeoutMs: 1000 })
  const [suspect] = await subject.send({})
  for (let time = 0; time < 2; time++) await target.past((await subject.receiveOne()).visibleAt)
  const answers: string[][] = []
  for (let receive = 0; receive < 4; receive++) {
    await subject.send({}, {}, {})
    answers.push(idsOf(await subject.receive({ limit: 2 })))
  }
  expect(answers).toContainEqual([suspect])
})

test('a receive takes messages without a key of at most 16 MiB, or one that is larger', async () => {
  const subject = new QueueUnderTest(target, root)
  const sizes = [6, 6, 6, 6]
  await subject.send(...sizes.map((size) => ({ payload: Buffer.alloc(size * MEGABYTE) })))
  expect(await subject.receive({ limit: 10 })).toHaveLength(2)
  expect(await subject.receive({ limit: 10 })).toHaveLength(2)
})

test('messages without a key that an earlier version has sent are received', async () => {
  const subject = new QueueUnderTest(target, root)
  const ids = await subject.send({}, {}, {})
  const client = new Client(await databaseUrl(target))
  await client.connect()
  await client.query(`update txbox.queue set shard = place % 16 where topic = $1`, [subject.queue.name])
  await client.end()
  expect(idsOf(await subject.receive({ limit: 10 })).toSorted()).toEqual(sortedIds(ids))
})

test('a receive, which does not wait for the disk, leaves the setting of its connection as it was', async () => {
  const single = target.open(mainKind(target), { max: 1 })
  const subject = new QueueUnderTest(target, single)
  await subject.send({}, { key: 'a' })
  expect(await subject.receive({ limit: 10 })).toHaveLength(2)
  await single.database.transact(async (tx) => {
    const { rows } = await (tx as unknown as Client).query('show synchronous_commit')
    expect(rows).toEqual([{ synchronous_commit: 'on' }])
  })
  await single.close()
})
