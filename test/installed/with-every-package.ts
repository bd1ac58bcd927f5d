// The packages for brokers, HTTP and telemetry under their own names. Nothing connects: what a package needs of its
// client is there, and its types fit those of the other packages.
import { cloudEvents } from '@txbox/cloudevents'
import { createIdempotency } from '@txbox/idempotency-key'
import { idempotentFetch } from '@txbox/idempotency-key/fetch'
import { fromKafka, kafkaPublisher, kafkaSource } from '@txbox/kafka'
import { fromNats, natsPublisher, natsSource } from '@txbox/nats'
import { openTelemetry } from '@txbox/opentelemetry'
import '@txbox/opentelemetry/register'
import { fromPgBoss, pgBossPublisher } from '@txbox/pg-boss'
import { postgres } from '@txbox/postgres'
import { prometheusTelemetry } from '@txbox/prometheus'
import { rabbitmqPublisher, rabbitmqSource } from '@txbox/rabbitmq'
import { fromRedis, redisPublisher, redisSource } from '@txbox/redis'
import { createRelay, type Publisher } from '@txbox/relay'
import { fromSqs, sqsPublisher, sqsSource } from '@txbox/sqs'
import { publisherContract, sourceContract } from '@txbox/testing'
import { webhookPublisher } from '@txbox/webhook'
import { createConsumer, type Source } from '@txbox/consumer'
import { Pool } from 'pg'
import { PgBoss } from 'pg-boss'

const pool = new Pool({ connectionString: process.env['DATABASE_URL'] })
const database = postgres({ db: pool })
const boss = new PgBoss({ connectionString: process.env['DATABASE_URL'] ?? '' })
const [brokers, servers, url] = [['localhost:9092'], 'nats://localhost:4222', 'redis://localhost']

const publishers: Publisher[] = [
  rabbitmqPublisher({ url: 'amqp://localhost' }),
  kafkaPublisher({ brokers }),
  natsPublisher({ servers }),
  redisPublisher({ url }),
  sqsPublisher({ region: 'eu-central-1' }),
  pgBossPublisher({ boss }),
  webhookPublisher({ url: 'https://shop.example' }),
]
const telemetry = [openTelemetry(), prometheusTelemetry()] as const
for (const publisher of publishers) {
  const wrapped = cloudEvents({ source: '/shop', publisher })
  await createRelay({ database, publisher: wrapped, telemetry: telemetry[0] }).stop()
}

const sources: Source[] = [
  rabbitmqSource({ url: 'amqp://localhost', queue: 'orders' }),
  kafkaSource({ brokers, topics: ['orders'], groupId: 'billing' }),
  natsSource({ servers, stream: 'ORDERS', consumer: 'billing' }),
  redisSource({ url, stream: 'orders', group: 'billing' }),
  sqsSource({ queue: 'orders' }),
]
for (const source of sources) {
  const deadLetters = webhookPublisher({ url: 'https://shop.example' })
  const handler = (): void => undefined
  await createConsumer({ source, name: 'billing', deadLetters, telemetry: telemetry[1], handler }).stop()
}

const functions = [fromKafka, fromNats, fromRedis, fromSqs, fromPgBoss, idempotentFetch, createIdempotency]
if (functions.some((each) => typeof each !== 'function')) throw new Error('names are missing')
const open = (): Promise<never> => Promise.reject(new Error('not opened'))
if (publisherContract({ ordering: 'per-key' }, open).length === 0 || typeof sourceContract !== 'function')
  throw new Error('cases are missing')
console.log(publishers.length, sources.length, (await telemetry[1].text()).includes('target_info'))
await pool.end()
