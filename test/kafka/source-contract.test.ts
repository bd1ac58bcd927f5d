import { afterAll, inject } from 'vitest'
import { sourceContract } from '@txbox/testing'
import { testContract } from '../support/subjects/contract-tests.ts'
import { outboxMessage, publish } from '../support/subjects/publishing.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'
import { sourceOf } from './group-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

const traits = {
  ...{ delays: false, countsDeliveries: false, keepsRejected: false, ordersKeys: false },
  ...{ settlesInTransaction: false, leaseMs: undefined, isExclusive: true },
}
const cases = sourceContract({ traits, settles: 'prefix', marksRedelivered: false }, async () => {
  const topic = await kafka.topic({ partitions: 1 })
  const network = await kafka.network()
  const groupId = kafka.name('group')
  const publisher = kafka.publisher()
  let sent = 0
  return {
    source: sourceOf(kafka, topic, { groupId, brokers: [`127.0.0.1:${network.address.port}`] }),
    network,
    send: async (ids, { key } = {}) => {
      sent += ids.length
      const messages = ids.map((id) =>
        outboxMessage({
          ...{ id, topic, payload: Buffer.from('{}'), contentType: 'application/json' },
          ...(key === undefined ? {} : { key }),
        }),
      )
      await publish(publisher, messages)
    },
    left: async () => sent - (await kafka.committed(topic, groupId)),
  }
})

testContract(cases)
