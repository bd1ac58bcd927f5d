import { expect, test } from 'vitest'
import type { Source } from '@txbox/core'
import { kafkaSource } from '@txbox/kafka'
import { natsSource } from '@txbox/nats'
import { rabbitmqSource } from '@txbox/rabbitmq'
import { redisSource } from '@txbox/redis'
import { sqsSource } from '@txbox/sqs'

const kafka = { brokers: ['localhost:9092'], groupId: 'billing' }

test.for<[string, Source, string | undefined]>([
  ['RabbitMQ', rabbitmqSource({ url: 'amqp://localhost', queue: 'orders' }), 'orders'],
  ['Kafka', kafkaSource({ ...kafka, topics: ['orders'] }), 'orders'],
  ['Kafka, several topics', kafkaSource({ ...kafka, topics: ['orders', 'bills'] }), undefined],
  ['NATS', natsSource({ servers: 'nats://localhost', stream: 'ORDERS', consumer: 'billing' }), 'ORDERS'],
  ['Redis', redisSource({ url: 'redis://localhost', stream: 'orders', group: 'billing' }), 'orders'],
  ['SQS', sqsSource({ queue: 'orders' }), 'orders'],
  [
    'SQS, by URL',
    sqsSource({ queue: 'https://sqs.eu-central-1.amazonaws.com/123456789012/orders' }),
    'orders',
  ],
])('the spans of a consumer of %s name the place that its messages come from', ([, source, destination]) => {
  expect(source.destination).toBe(destination)
})
