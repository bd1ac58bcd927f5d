import { afterAll, expect, inject, test } from 'vitest'
import { until } from '../support/worlds/until.ts'
import { ids, opened, receive, receiveFor, send, sourceOf } from './group-under-test.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

test.for([
  ['fewer records', 2],
  ['more records', 7],
] as const)(
  'a topic that was deleted and created again, with %s than before, is received from its beginning',
  async ([, count]) => {
    const topic = await kafka.topic({ partitions: 1 })
    const groupId = kafka.name('group')
    const between = await kafka.network()
    const source = sourceOf(kafka, topic, { groupId, brokers: [`127.0.0.1:${between.address.port}`] })
    await send(kafka, topic, ['a', 'b', 'c', 'd', 'e'])
    const warnings: string[] = []
    const open = await opened(source, { warned: (text) => void warnings.push(text) })
    const old = await receive(open, 5)
    await old[0]!.accept()
    // The source asks neither when there is no topic nor when it is empty.
    between.freeze()
    const accepting = old[1]!.accept({ beforeHandling: true })
    await kafka.admin.deleteTopics({ topics: [topic] })
    await kafka.topic({ topic, partitions: 1 })
    const names = Array.from({ length: count }, (_, n) => `new ${n}`)
    await send(kafka, topic, names)
    between.thaw()
    const fresh = await receive(open, count)
    expect(ids(fresh)).toEqual(names)
    expect(await receiveFor(open, 200)).toEqual([])
    // What belongs to the old records changes nothing.
    await accepting
    expect(old.slice(2).every(({ lost }) => lost.aborted)).toBe(true)
    for (const one of old) await one.accept()
    await until(
      async () => (await kafka.committed(topic, groupId)) === 0,
      async () => `nothing is committed: ${await kafka.committed(topic, groupId)}`,
    )
    await fresh[0]!.accept()
    expect(await kafka.committed(topic, groupId)).toBe(1)
    for (const one of fresh) await one.accept()
    await open.close()
    expect(await kafka.committed(topic, groupId)).toBe(count)
    expect(warnings.join()).toContain(`The topic '${topic}' was deleted and created again.`)
  },
)

test('a group whose offset is behind all records goes on at the oldest one, and commits that', async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const groupId = kafka.name('group')
  await send(kafka, topic, ['a', 'b'])
  await kafka.admin.alterConsumerGroupOffsets({
    groupId,
    topics: [{ name: topic, partitionOffsets: [{ partition: 0, offset: 100n }] }],
  })
  const open = await opened(sourceOf(kafka, topic, { groupId }))
  const [a, b] = await receive(open, 2)
  expect(ids([a!, b!])).toEqual(['a', 'b'])
  await a!.accept()
  expect(await kafka.committed(topic, groupId)).toBe(1)
  await b!.accept()
  expect(await kafka.committed(topic, groupId)).toBe(2)
})
