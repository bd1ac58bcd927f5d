// A relay: from the outbox to RabbitMQ. Some messages are made to harm its publisher.
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { createRelay, exponentialBackoff, type OutboxMessage, type Publisher } from '@txbox/relay'
import { RELAY_ATTEMPTS, RELAY_POOL_SIZE } from './limits.ts'
import { connectedDatabase } from './database-pool.ts'
import { stampedMessage } from './stamped-message.ts'
import { steadyNow, Worker } from './worker.ts'
import { EXCHANGE, type Change } from './worker-protocol.ts'

const worker = new Worker()
const { slot, engine, leaseMs, batchSize, publishTimeoutMs, brokerUrl, killLog } = worker.config
/** The two relays differ in what users choose: the handle, the way to wake up, and the order within one call. */
const isFirst = slot.endsWith('1')
const hung = new Set<string>()
const LONGEST_HANG_MS = 2500

const inner = rabbitmqPublisher({
  url: brokerUrl,
  exchange: EXCHANGE,
  confirmTimeoutMs: publishTimeoutMs * 2,
  connectTimeoutMs: 2000,
})

const publisher: Publisher = {
  ordering: isFirst ? 'per-key' : 'none',
  async publish(messages, options) {
    const calledAtMs = steadyNow()
    if (!worker.mode.healed) await suffer(messages, options.signal)
    const stamped = messages.map((message) => stampedMessage(message, worker.name, calledAtMs))
    return inner.publish(stamped, options)
  },
  close: async () => inner.close?.(),
}

const relay = createRelay({
  database: connectedDatabase(worker, RELAY_POOL_SIZE, isFirst ? 'driver' : 'kysely'),
  publisher,
  owner: worker.name,
  leaseMs,
  batchSize,
  pollIntervalMs: { min: 20, max: 250 },
  publishTimeoutMs,
  retry: exponentialBackoff({ attempts: RELAY_ATTEMPTS, minMs: 200, maxMs: 3000 }),
  ...(isFirst && engine === 'postgres' && { wakeup: 'notify' as const }),
})
relay.on('published', ({ count }) => worker.count('published', count))
relay.on('parked', () => worker.count('parked'))
relay.on('dead-lettered', () => worker.count('dead letters'))
relay.on('lease-lost', ({ reason }) => worker.count(`leases ${reason}`))
relay.on('unavailable', ({ error }) => worker.failed(error))
relay.on('error', ({ error }) => worker.failed(error))

await startRelay()
worker.ready()
await new Promise<void>((resolve) => worker.ending.addEventListener('abort', () => resolve(), { once: true }))
await relay.stop({ timeoutMs: 10_000 })
await worker.end()

/** A relay that begins while the database is away is started again by its supervisor; here, by itself. */
async function startRelay(): Promise<void> {
  for (;;) {
    try {
      return await relay.start()
    } catch (error) {
      worker.failed(error)
      if (worker.ending.aborted) return
      await pause(200)
    }
  }
}

async function suffer(messages: readonly OutboxMessage[], signal: AbortSignal): Promise<void> {
  for (const message of messages) {
    if (message.topic !== 'chaos.ill') continue
    const { ill } = message.json<Change>()
    if (ill === 'kills-relay') {
      appendFileSync(killLog, `${message.id}\n`)
      process.kill(process.pid, 'SIGKILL')
    }
    // Once for each process, or a shard would stand still for as long as the message is ill.
    if (ill === 'hangs-relay' && !hung.has(message.id)) {
      hung.add(message.id)
      await pause(LONGEST_HANG_MS, undefined, { signal })
      throw new Error('The publisher hung.')
    }
  }
}
