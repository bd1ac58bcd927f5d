import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { rabbitmqSource } from '@txbox/rabbitmq'
import type { Delivery, OpenSource } from '@txbox/consumer'
import { useBroker } from './broker-under-test.ts'

const broker = useBroker()
const NEVER = new AbortController().signal
const MESSAGES = 300
const ROUNDS = 10

async function received(opened: OpenSource): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  while (deliveries.length < MESSAGES) deliveries.push(...(await opened.receive(MESSAGES, { signal: NEVER })))
  return deliveries
}

/** The messages of every other round have keys: they are returned in another way. */
async function fill(queue: string, round: number): Promise<void> {
  const channel = await broker.confirmChannel()
  for (let n = 0; n < MESSAGES; n += 1) {
    const headers = round % 2 === 0 ? {} : { 'txbox-key': `k${n % 7}` }
    channel.sendToQueue(queue, Buffer.from('{}'), { messageId: `m${n}`, headers, persistent: true })
  }
  await channel.waitForConfirms()
  await channel.close()
}

const numberOf = ({ message }: Delivery): number => Number(message.id.slice(1))

for (const type of ['quorum', 'classic'] as const) {
  // A quorum queue that has many settlements to write takes no more of them from its channel for a while.
  test(`C1 a ${type} queue keeps every settlement that was made before close, however soon the close follows`, async () => {
    const graveyard = await broker.queue({ type })
    const queue = await broker.queue({
      type,
      arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': graveyard },
    })
    const source = rabbitmqSource({ url: broker.url, queue, keepsRejected: true })
    const left: number[] = []
    for (let round = 0; round < ROUNDS; round += 1) {
      await fill(queue, round)
      const opened = await source.open({ prefetch: MESSAGES, failed: () => undefined })
      const settling: Promise<void>[] = []
      for (const delivery of await received(opened)) {
        const isRejected = numberOf(delivery) % 10 === 9
        const recorded = numberOf(delivery) % 3 === 0
        settling.push(isRejected ? delivery.reject({ error: undefined }) : delivery.accept({ recorded }))
        // Each in a frame of its own.
        await turn()
      }
      await Promise.all(settling)
      await opened.close()
      await pause(100)
      left.push((await broker.take(queue)).length)
    }
    expect(left).toEqual(left.map(() => 0))
    await expect
      .poll(async () => (await broker.channel.checkQueue(graveyard)).messageCount)
      .toBe((ROUNDS * MESSAGES) / 10)
  })

  test(`C1 close of a ${type} queue gives back the unsettled deliveries, and no delivery that was settled in the same turn`, async () => {
    const queue = await broker.queue({ type })
    const source = rabbitmqSource({ url: broker.url, queue, keepsRejected: true })
    for (let round = 0; round < ROUNDS; round += 1) {
      await fill(queue, round)
      const opened = await source.open({ prefetch: MESSAGES, failed: () => undefined })
      const deliveries = await received(opened)
      const accepting = deliveries.filter((one) => numberOf(one) % 2 === 0).map((one) => one.accept())
      await Promise.all([...accepting, opened.close()])
      await pause(100)
      const left = await broker.ids(queue)
      expect(left.toSorted()).toEqual(
        deliveries
          .filter((one) => numberOf(one) % 2 === 1)
          .map(({ message }) => message.id)
          .toSorted(),
      )
    }
  })
}
