import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import amqp from 'amqplib'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { createConsumer, type Logger, type PlainConsumerOptions } from '@txbox/consumer'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { startChaosBroker, type ChaosBroker } from '../../chaos/servers/chaos-broker.ts'
import { until } from '../support/worlds/until.ts'

let folder: string
let broker: ChaosBroker

beforeAll(async () => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'txbox-test-servers-'))
  broker = await startChaosBroker({ folder })
}, 120_000)
afterAll(async () => {
  await broker.stop()
  await rm(folder, { recursive: true })
})

async function fill(queue: string, count: number): Promise<void> {
  const connection = await amqp.connect(broker.directUrl)
  const channel = await connection.createConfirmChannel()
  await channel.assertQueue(queue, { arguments: { 'x-queue-type': 'quorum' } })
  for (let n = 0; n < count; n += 1) {
    channel.sendToQueue(queue, Buffer.from('{}'), { messageId: `m${n}`, persistent: true })
  }
  await channel.waitForConfirms()
  await connection.close()
}

/** Consumes until `count` messages are handled. Each fails at its first delivery. @returns the warnings about the source */
async function consumed(
  queue: string,
  url: string,
  how: { count: number; options?: Partial<PlainConsumerOptions>; whenFailed?: () => Promise<void> },
): Promise<{ warnings: string[]; deliveries: Map<string, number[]> }> {
  const warnings: string[] = []
  const deliveries = new Map<string, number[]>()
  const handled = new Set<string>()
  const none = (): void => undefined
  const logger: Logger = {
    ...{ debug: none, info: none, error: none },
    warn: (about: object, text: string) => {
      if ('event' in about && about.event === 'source') warnings.push(text)
    },
  }
  const consumer = createConsumer({
    source: rabbitmqSource({ url, queue, keepsRejected: true }),
    name: 'orders',
    logger,
    ...how.options,
    handler: async ({ id }, context) => {
      const all = deliveries.get(id) ?? []
      deliveries.set(id, [...all, context.deliveries])
      if (all.length === 0) throw new Error('not yet')
    },
  })
  onTestFinished(() => consumer.stop({ timeoutMs: 0 }))
  consumer.on('handled', ({ message }) => void handled.add(message.id))
  await consumer.start()
  await how.whenFailed?.()
  await until(
    async () => handled.size === how.count,
    () => `${how.count} are handled: ${handled.size}`,
    60_000,
  )
  await consumer.stop()
  return { warnings, deliveries }
}

const LEAVING = { holdMs: 0, retry: { attempts: 5, delayMs: () => 4000 } }

test('C11 a user who may not declare retry queues: the consumer holds its retries, and warns once which permission is missing', async () => {
  await fill('orders', 30)
  const url = await broker.addUser('reader', { configure: '^$', write: '^$', read: '^orders$' })
  const options = { retry: { attempts: 3, delayMs: () => 300 } }
  const { warnings } = await consumed('orders', url, { count: 30, options })
  expect(warnings.length).toBe(1)
  expect(warnings[0]).toMatch(/'orders\.txbox-retry-1'.*403 .*access to queue/)
  expect(warnings[0]).toMatch(
    /permissions to configure and read queues named 'orders\.txbox-retry-<seconds>', and to write to 'amq\.default'/,
  )
})

test('C11 the permissions that the warning names are enough', async () => {
  await fill('orders', 30)
  const url = await broker.addUser('retrier', {
    configure: String.raw`^orders\.txbox-retry-\d+$`,
    write: String.raw`^amq\.default$`,
    read: String.raw`^orders(\.txbox-retry-\d+)?$`,
  })
  const { warnings, deliveries } = await consumed('orders', url, {
    count: 30,
    options: { holdMs: 0, retry: { attempts: 3, delayMs: () => 300 } },
  })
  expect(warnings).toEqual([])
  expect([...deliveries.values()]).toEqual(Array.from({ length: 30 }, () => [1, 2]))
})

test('C11 C24 the broker is killed while messages wait in a new retry queue: each comes back after its delay, and is counted', async () => {
  await fill('invoices', 100)
  const waiting = async (): Promise<number> => {
    const connection = await amqp.connect(broker.directUrl)
    try {
      const channel = await connection.createChannel()
      channel.on('error', () => undefined)
      return (await channel.checkQueue('invoices.txbox-retry-5')).messageCount
    } catch {
      // The queue does not exist yet.
      return 0
    } finally {
      await connection.close()
    }
  }
  const { deliveries } = await consumed('invoices', broker.directUrl, {
    count: 100,
    options: LEAVING,
    whenFailed: async () => {
      await until(
        async () => (await waiting()) === 100,
        () => '100 wait',
      )
      await broker.restart()
    },
  })
  expect([...deliveries.keys()].length).toBe(100)
  expect([...deliveries.values()]).toEqual(Array.from({ length: 100 }, () => [1, 2]))
}, 120_000)
