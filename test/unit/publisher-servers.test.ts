import { SQSClient } from '@aws-sdk/client-sqs'
import { expect, test } from 'vitest'
import { kafkaPublisher } from '@txbox/kafka'
import { natsPublisher } from '@txbox/nats'
import { rabbitmqPublisher } from '@txbox/rabbitmq'
import { redisPublisher } from '@txbox/redis'
import { sqsPublisher } from '@txbox/sqs'
import { webhookPublisher } from '@txbox/webhook'
import type { Publisher } from '@txbox/core'

const client = new SQSClient({ region: 'eu-central-1' })

test.for<[string, Publisher, Publisher['server']]>([
  ['RabbitMQ', rabbitmqPublisher({ url: 'amqp://u:secret@broker' }), { address: 'broker', port: 5672 }],
  ['Kafka', kafkaPublisher({ brokers: ['broker:9092'] }), { address: 'broker', port: 9092 }],
  ['Kafka of several brokers', kafkaPublisher({ brokers: ['a:9092', 'b:9092'] }), undefined],
  ['NATS', natsPublisher({ servers: 'nats://u:secret@broker' }), { address: 'broker', port: 4222 }],
  ['NATS by IPv6', natsPublisher({ servers: 'nats://[::1]:4223' }), { address: '::1', port: 4223 }],
  ['NATS of several servers', natsPublisher({ servers: ['nats://a', 'nats://b'] }), undefined],
  ['Redis', redisPublisher({ url: 'redis://:secret@broker/1' }), { address: 'broker', port: 6379 }],
  ['SQS at an endpoint', sqsPublisher({ endpoint: 'http://broker:9324' }), { address: 'broker', port: 9324 }],
  ['SQS where the SDK finds it', sqsPublisher(), undefined],
  ['SQS with a client', sqsPublisher({ client, endpoint: 'http://broker:9324' }), undefined],
  [
    'a webhook',
    webhookPublisher({ url: 'https://u:secret@shop.example/in' }),
    { address: 'shop.example', port: 443 },
  ],
  ['webhooks of many endpoints', webhookPublisher(), undefined],
])('the server in spans of %s has neither user nor password', async ([, publisher, server]) => {
  expect(publisher.server).toEqual(server)
  await publisher.close?.()
})
