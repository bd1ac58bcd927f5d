import { afterAll, expect, inject, test } from 'vitest'
import { until } from '../support/worlds/until.ts'
import { SHORTEST_SESSION_MS, ids, opened, receive, receiveFor, send, sourceOf } from './group-under-test.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

test('a member that joins takes over partitions: what it gets is lost to the others, and what they keep is not', async () => {
  const topic = await kafka.topic({ partitions: 4 })
  const groupId = kafka.name('group')
  const names = Array.from({ length: 40 }, (_, n) => `m${n}`)
  await send(kafka, topic, names)
  const first = await opened(sourceOf(kafka, topic, { groupId }))
  const held = await receive(first, 40)
  // The rebalance ends when the first member has joined again.
  const second = await opened(sourceOf(kafka, topic, { groupId }))
  const [earliest] = await receive(second, 1)
  const [lost, kept] = [held.filter((one) => one.lost.aborted), held.filter((one) => !one.lost.aborted)]
  expect(Math.min(lost.length, kept.length)).toBeGreaterThan(0)
  const taken = [earliest!, ...(await receive(second, lost.length - 1))]
  expect(ids(taken).toSorted()).toEqual(ids(lost).toSorted())
  // The first member may commit only what it has kept.
  await Promise.all(held.map((one) => one.accept()))
  expect(await kafka.committed(topic, groupId)).toBe(kept.length)
  await first.close()
  expect(ids(await receiveFor(second, 1000))).toEqual([])
  // The second member has kept its partitions when the first one left.
  await Promise.all(taken.map((one) => one.accept()))
  await second.close()
  expect(await kafka.committed(topic, groupId)).toBe(40)
})

test(
  'a member that was silent for its session loses all, and commits nothing afterwards',
  async () => {
    const topic = await kafka.topic({ partitions: 1 })
    const groupId = kafka.name('group')
    const between = await kafka.network()
    await send(kafka, topic, ['a', 'b', 'c'])
    const failures: unknown[] = []
    const silent = await opened(
      sourceOf(kafka, topic, { groupId, brokers: [`127.0.0.1:${between.address.port}`] }),
      { failed: (error) => void failures.push(error) },
    )
    const held = await receive(silent, 3)
    between.freeze()
    const other = await opened(sourceOf(kafka, topic, { groupId }))
    const [a] = await receive(other, 3)
    await a!.accept()
    await until(
      async () => failures.length === 1,
      () => 'the silent member has noticed nothing',
    )
    expect(held.every(({ lost }) => lost.aborted)).toBe(true)
    const accepting = held.map((one) => one.accept())
    between.thaw()
    await Promise.all(accepting)
    await silent.close()
    expect(await kafka.committed(topic, groupId)).toBe(1)
  },
  3 * SHORTEST_SESSION_MS + 20_000,
)

test('a member that was expelled commits nothing, loses its deliveries and receives them again', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const groupId = kafka.name('group')
  await send(kafka, topic, ['a', 'b', 'c'])
  const failures: unknown[] = []
  const open = await opened(sourceOf(kafka, topic, { groupId }), {
    failed: (error) => void failures.push(error),
  })
  const held = await receive(open, 3)
  await kafka.admin.removeMembersFromConsumerGroup({ groupId })
  // Kafka refuses the commit, and tells the member so with its next heartbeat, too.
  await held[0]!.accept({ beforeHandling: true })
  expect(held[0]!.lost.aborted).toBe(true)
  expect(await kafka.committed(topic, groupId)).toBe(0)
  const again = await receive(open, 3)
  expect(held.slice(1).every(({ lost }) => lost.aborted)).toBe(true)
  expect(ids(again)).toEqual(['a', 'b', 'c'])
  await held[1]!.accept()
  await again[0]!.accept()
  expect(await kafka.committed(topic, groupId)).toBe(1)
  expect(failures).toEqual([])
})
