import { onTestFinished } from 'vitest'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { sourceContract } from '../support/subjects/source-contract.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()

for (const type of ['quorum', 'classic'] as const) {
  sourceContract(`RabbitMQ, ${type} queue`, async () => {
    const deadLetterExchange = await broker.exchange('fanout')
    const graveyard = await broker.queue({ type })
    await broker.channel.bindQueue(graveyard, deadLetterExchange, '')
    const queue = broker.name('queue')
    broker.deleteAfterwards(queue)
    const between = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => between.close())
    const url = broker.urlAt(between.address)
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
      cut: () => between.cut(),
      left: async () => (await broker.channel.checkQueue(queue)).messageCount,
      rejected: async () => {
        rejected.push(...(await broker.ids(graveyard)))
        return rejected
      },
    }
  })
}
