import { onTestFinished } from 'vitest'
import { publisherContract } from '../support/subjects/publisher-contract.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()

publisherContract({ ordering: 'per-key', canBeAway: true }, async () => {
  const network = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => network.close())
  const queue = await broker.queue({ type: 'quorum' })
  return {
    publisher: broker.publisher({ url: broker.urlAt(network.address), exchange: '' }),
    goodTopic: queue,
    badTopic: broker.name('missing'),
    network,
    arrived: async () =>
      (await broker.take(queue)).map(({ content, properties }) => ({
        id: String(properties.messageId),
        payload: content,
      })),
  }
})
