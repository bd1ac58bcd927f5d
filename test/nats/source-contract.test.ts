import { onTestFinished } from 'vitest'
import { natsSource } from '@txbox/nats'
import { sourceContract } from '@txbox/testing'
import { testContract } from '../support/subjects/contract-tests.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { urlAt, useNats } from './nats-under-test.ts'

const nats = useNats()
const ACK_WAIT_MS = 1000

const traits = {
  ...{ delays: false, countsDeliveries: true, keepsRejected: false, ordersKeys: false },
  ...{ settlesInTransaction: false, leaseMs: ACK_WAIT_MS },
}

const cases = sourceContract({ traits, countsReturns: true }, async () => {
  const stream = await nats.stream()
  const network = await UnreliableNetwork.to(nats.address)
  onTestFinished(() => network.close())
  const consumer = 'billing'
  const source = natsSource({
    servers: urlAt(network.address),
    stream,
    consumer,
    declare: { ackWaitMs: ACK_WAIT_MS },
  })
  // The first connection creates the consumer.
  await (await source.open({ prefetch: 1, failed: () => undefined })).close()
  return {
    source,
    network,
    send: (ids, { key } = {}) => nats.send(`${stream}.a`, ids, '{}', key),
    left: async () => {
      const { num_pending: unseen, num_ack_pending: unsettled } = await nats.manager.consumers.info(
        stream,
        consumer,
      )
      return unseen + unsettled
    },
  }
})

testContract(cases)
