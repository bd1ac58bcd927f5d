import { fork, type ChildProcess } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, inject, onTestFinished, test } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import { outboxMessage, publish } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'
import { ids, opened, receive, send, sourceOf } from './group-under-test.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

const KEYS = ['a', 'a', 'b', 'c', 'a', 'b']

/** Messages of three keys, which follow one another in a partition. */
function sendKeyed(topic: string, count: number): Promise<unknown> {
  const messages = Array.from({ length: count }, (_, n) =>
    outboxMessage({ id: `m${n}`, topic, key: KEYS[n % KEYS.length]!, payload: Buffer.from('{}') }),
  )
  return publish(kafka.publisher(), messages)
}

test('an acceptance before handling is final although an earlier message is not settled, which this process may still settle', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const groupId = kafka.name('group')
  await send(kafka, topic, ['a', 'b', 'c', 'd'])
  const open = await opened(sourceOf(kafka, topic, { groupId }))
  const [a, b, c, d] = await receive(open, 4)
  await c!.accept({ beforeHandling: true })
  expect(await kafka.committed(topic, groupId)).toBe(3)
  await b!.accept({ beforeHandling: true })
  expect(await kafka.committed(topic, groupId)).toBe(3)
  await a!.retry({ delayMs: 0, error: undefined, counted: false })
  const [again] = await receive(open, 1)
  expect(again!.message.id).toBe('a')
  await again!.accept()
  await d!.reject({ error: undefined })
  expect(await kafka.committed(topic, groupId)).toBe(4)
})

test('with a partition, a process keeps what was accepted with a later message; the rest belongs to the next member', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const groupId = kafka.name('group')
  await send(kafka, topic, ['a', 'b', 'c'])
  const warnings: string[] = []
  const open = await opened(sourceOf(kafka, topic, { groupId }), {
    warned: (text) => void warnings.push(text),
  })
  const [a, b, c] = await receive(open, 3)
  await b!.accept({ beforeHandling: true })
  await kafka.admin.removeMembersFromConsumerGroup({ groupId })
  expect(ids(await receive(open, 1))).toEqual(['c'])
  expect([a, b, c].map((one) => one!.lost.aborted)).toEqual([false, false, true])
  await a!.accept({ beforeHandling: true })
  expect(await kafka.committed(topic, groupId)).toBe(2)
  expect(warnings).toEqual([])
})

test('a message that is returned when its process stops, and was accepted with a later one, is reported', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  await send(kafka, topic, ['a', 'b', 'c'])
  const warnings: string[] = []
  const source = sourceOf(kafka, topic)
  const open = await opened(source, { warned: (text) => void warnings.push(text) })
  const [a, b, c] = await receive(open, 3)
  await b!.accept({ beforeHandling: true })
  for (const one of [a, c]) await one!.retry({ delayMs: 0, error: undefined, counted: false, stopping: true })
  await open.close()
  expect(warnings).toEqual([
    `Message a, at the offset 0 of partition 0 of the topic '${topic}', is lost: it was accepted with a later message of its partition, ` +
      'as consumers that handle messages at most once do, and was not handled before this process gave it up.',
  ])
  expect(ids(await receive(await opened(source), 1))).toEqual(['c'])
})

test.for<readonly [string, object]>([
  ['one handler', { concurrency: 1, prefetch: 10 }],
  ['two handlers', { concurrency: 2, prefetch: 20 }],
  ['batches', { concurrency: 1, batch: { maxSize: 2, lingerMs: 5 } }],
  ['ten handlers of batches', { concurrency: 10, batch: { maxSize: 4, lingerMs: 5 } }],
])('at most once, all messages are handled by %s, in the order of their keys', async ([, options]) => {
  const topic = await kafka.topic({ partitions: 1 })
  const groupId = kafka.name('group')
  await sendKeyed(topic, 60)
  const handled: string[] = []
  const consumer = createConsumer({
    source: sourceOf(kafka, topic, { groupId }),
    ...{ name: 'metering', delivery: 'at-most-once', logger: false, ...options },
    handler: async (given: unknown) => {
      for (const { id } of [given].flat() as { id: string }[]) handled.push(id)
    },
  } as Parameters<typeof createConsumer>[0])
  onTestFinished(() => consumer.stop())
  await consumer.start()
  await until(
    async () => handled.length >= 60,
    () => `60 messages: ${handled.length} ${JSON.stringify(consumer.figures)}`,
  )
  await consumer.stop()
  expect(new Set(handled).size).toBe(60)
  expect(handled.length).toBe(60)
  for (const key of new Set(KEYS)) {
    const own = handled.map((id) => Number(id.slice(1))).filter((n) => KEYS[n % KEYS.length] === key)
    expect(own).toEqual(own.toSorted((x, y) => x - y))
  }
  expect(await kafka.committed(topic, groupId)).toBe(60)
})

test('processes that are killed handle no message twice', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const folder = await mkdtemp(path.join(tmpdir(), 'txbox-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const log = path.join(folder, 'handled')
  const groupId = kafka.name('group')
  const env = { ...process.env, BROKER: kafka.address, TOPIC: topic, GROUP: groupId, LOG: log }
  const join = (): ChildProcess => {
    const file = path.join(import.meta.dirname, 'programs', 'at-most-once.mjs')
    const member = fork(file, [], { env, stdio: ['ignore', 'ignore', 'inherit', 'ipc'] })
    onTestFinished(() => void member.kill('SIGKILL'))
    return member
  }
  const handled = async (): Promise<string[]> =>
    (await readFile(log, 'utf8').catch(() => '')).split('\n').filter((id) => id !== '')
  const atLeast = (count: number): Promise<void> =>
    until(
      async () => (await handled()).length >= count,
      async () => `${count} messages: ${(await handled()).length}`,
    )
  await sendKeyed(topic, 300)
  for (const count of [50, 120]) {
    const member = join()
    await atLeast(count)
    const ended = new Promise((resolve) => void member.once('exit', resolve))
    member.kill('SIGKILL')
    await ended
    // Otherwise the group would wait for the end of its session.
    await kafka.admin.removeMembersFromConsumerGroup({ groupId })
  }
  join()
  await until(
    async () => (await handled()).includes('m299'),
    async () => `the last message: ${(await handled()).length}`,
  )
  const all = await handled()
  expect(new Set(all).size).toBe(all.length)
  // A process loses at most what it holds.
  expect(all.length).toBeGreaterThan(250)
})
