// A member of a group that handles messages at most once. It is killed in the middle of its work.
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { createConsumer } from '@txbox/consumer'
import { kafkaSource } from '@txbox/kafka'

const { BROKER, TOPIC, GROUP, LOG } = process.env
const consumer = createConsumer({
  source: kafkaSource({ brokers: [BROKER], topics: [TOPIC], groupId: GROUP, sessionTimeoutMs: 6000 }),
  ...{ name: GROUP, delivery: 'at-most-once', concurrency: 3, logger: false },
  handler: async ({ id }) => {
    appendFileSync(LOG, `${id}\n`)
    await pause(5)
  },
})
process.once('disconnect', () => process.exit())
await consumer.start()
