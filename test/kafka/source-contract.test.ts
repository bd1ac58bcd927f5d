import { afterAll, inject } from 'vitest'
import type { Delivery, OpenSource, Source } from '@txbox/kafka'
import { sourceContract } from '../support/subjects/source-contract.ts'
import { outboxMessage, publish } from '../support/subjects/publishing.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'
import { sourceOf } from './group-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

/** Counts the deliveries of a source that are in hand, which Kafka does not know. */
function counted(source: Source): { readonly source: Source; readonly inHand: ReadonlySet<Delivery> } {
  const inHand = new Set<Delivery>()
  const take = (delivery: Delivery): Delivery => {
    inHand.add(delivery)
    const leave = (): void => void inHand.delete(delivery)
    delivery.onLost?.(leave)
    for (const name of ['accept', 'retry', 'reject'] as const) {
      const settle = delivery[name].bind(delivery) as (how: unknown) => Promise<void>
      delivery[name] = async (how: unknown) => {
        leave()
        await settle(how)
      }
    }
    return delivery
  }
  const open = async (how: Parameters<Source['open']>[0]): Promise<OpenSource> => {
    const opened = await source.open(how)
    return {
      receive: async (...args) => (await opened.receive(...args)).map(take),
      close: (...args) => opened.close(...args),
    }
  }
  return { source: { name: source.name, traits: source.traits, open }, inHand }
}

// Kafka keeps one offset for each partition: what is accepted behind a message that is not settled is delivered again. So each message of
// the short tests has a partition of its own. Messages without a key take the partitions in turn.
sourceContract('Kafka', async () => {
  const topic = await kafka.topic({ partitions: 30 })
  const between = await kafka.network()
  const groupId = kafka.name('group')
  const publisher = kafka.publisher()
  const brokers = [`127.0.0.1:${between.address.port}`]
  const { source, inHand } = counted(sourceOf(kafka, topic, { groupId, brokers }))
  let sent = 0
  return {
    source,
    send: async (ids) => {
      sent += ids.length
      await publish(
        publisher,
        ids.map((id) => outboxMessage({ id, topic, payload: Buffer.from('{}'), contentType: 'application/json' })),
      )
    },
    cut: () => between.cut(),
    left: async () => sent - inHand.size - (await kafka.committed(topic, groupId)),
    rejected: async () => [],
  }
})
