// The relay: moves events from the receiver's outbox to RabbitMQ, or to the second service over HTTP.
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { createRelay, exponentialBackoff, publishEach, type OutboxMessage, type Publisher } from 'txbox'
import { openDatabase } from './service-database.ts'
import { announceReady, environment } from './supervised.ts'

const { relayDatabase, close } = openDatabase(environment('DATABASE_URL'), 6)
const shutdown = new AbortController()

function publisher(): Publisher {
  const url = process.env['AMQP_URL']
  if (url === undefined) return publishEach(post, { concurrency: 8 })
  // The consumer creates the queue and its exchange, so they already exist.
  return rabbitmqPublisher({ url, exchange: environment('EXCHANGE'), assertExchange: false })
}

/** A function is enough as a publisher: it resolves when the receiver has the event, and throws otherwise. */
async function post(event: OutboxMessage, { signal }: { signal: AbortSignal }): Promise<void> {
  const response = await fetch(new URL(event.topic, environment('SECOND_SERVICE_URL')), {
    method: 'POST',
    headers: { 'content-type': event.contentType, 'idempotency-key': event.id },
    body: event.text(),
    signal,
  })
  const answer = await response.text()
  if (!response.ok) throw new Error(`The second service answered ${response.status}: ${answer}`)
}

const relay = createRelay({
  database: relayDatabase,
  publisher: publisher(),
  // The defaults suit a relay that lives for weeks. This one is killed every few seconds: it settles small batches, its
  // leases expire soon after it, and it soon tries a second service again that was down for half a second.
  batchSize: 100,
  leaseMs: 1500,
  pollIntervalMs: { min: 20, max: 100 },
  retry: exponentialBackoff({ minMs: 100, maxMs: 500 }),
  signal: shutdown.signal,
})

relay.on('error', ({ error }) => console.error(error))
relay.on('unavailable', ({ error }) => console.error(error))
// The relay reports this only now: the leases of a killed relay must expire first.
relay.on('lease-acquired', announceReady)
process.once('SIGTERM', () => shutdown.abort())

await relay.start()
await relay.stopped
await close()
process.exit()
