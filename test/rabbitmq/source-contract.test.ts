import { onTestFinished } from 'vitest'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { sourceContract } from '@txbox/testing'
import { testContract } from '../support/subjects/contract-tests.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()

for (const type of ['quorum', 'classic'] as const) {
  const traits = {
    ...{ delays: false, countsDeliveries: type === 'quorum', keepsRejected: true, ordersKeys: false },
    ...{ settlesInTransaction: false, leaseMs: undefined, isExclusive: false },
  }
  const cases = sourceContract({ traits, countsReturns: true }, async () => {
    const deadLetterExchange = await broker.exchange('fanout')
    const graveyard = await broker.queue({ type })
    await broker.channel.bindQueue(graveyard, deadLetterExchange, '')
    const queue = broker.name('queue')
    broker.deleteAfterwards(queue)
    const network = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => network.close())
    const url = broker.urlAt(network.address)
    const source = rabbitmqSource({ url, queue, declare: { type, deadLetterExchange } })
    // The first connection creates the queue.
    await (await source.open({ prefetch: 1, failed: () => undefined })).close()
    const rejected: string[] = []
    return {
      source,
      send: async (ids) => {
        const channel = await broker.confirmChannel()
        for (const messageId of ids) channel.sendToQueue(queue, Buffer.from('{}'), { messageId })
        await channel.waitForConfirms()
        await channel.close()
      },
      network,
      left: async () => (await broker.channel.checkQueue(queue)).messageCount,
      rejected: async () => {
        rejected.push(...(await broker.ids(graveyard)))
        return rejected
      },
    }
  })

  testContract(cases, { suffix: ` (${type} queue)` })
}
