import { expect, test } from 'vitest'
import type { InboxMessage, OutboxMessage } from '@txbox/core'
import { encodeMessages } from '@txbox/core/internal'
import { fromKafka } from '@txbox/kafka'
import { fromNats } from '@txbox/nats'
import { fromPgBoss } from '@txbox/pg-boss'
import { fromRabbitmq } from '@txbox/rabbitmq'
import { fromRedis } from '@txbox/redis'
import { fromSqs } from '@txbox/sqs'
import { fromWebhook } from '@txbox/webhook'
import { outgoingRecord } from '../../packages/kafka/src/publish/outgoing-record.ts'
import { outgoingMessage as toNats } from '../../packages/nats/src/publish/outgoing-message.ts'
import { outgoingJob } from '../../packages/pg-boss/src/publish/outgoing-job.ts'
import { outgoingMessage as toRabbitmq } from '../../packages/rabbitmq/src/publish/outgoing-message.ts'
import { outgoingEntry } from '../../packages/redis/src/publish/outgoing-entry.ts'
import { outgoingMessage as toSqs } from '../../packages/sqs/src/publish/outgoing-message.ts'
import { wireHeaders } from '../../packages/webhook/src/publish/wire-headers.ts'
import { outboxMessage } from '../support/subjects/publishing.ts'
import { SECRETS, signed } from '../support/subjects/signed-webhooks.ts'

const maxMessageBytes = 1000
const topic = 'orders'

/** What a handler gets of a message, by the program that has carried it. */
const CARRIERS: Readonly<Record<string, (message: OutboxMessage) => InboxMessage>> = {
  RabbitMQ: (message) => fromRabbitmq(toRabbitmq(message, maxMessageBytes)),
  Kafka: (message) => fromKafka(outgoingRecord(message, topic, maxMessageBytes)),
  NATS: (message) => {
    const { payload: data, headers } = toNats(message, topic, { maxMessageBytes, stream: 'orders' })
    return fromNats({ data, headers })
  },
  Redis: (message) => {
    const fields = outgoingEntry(message, topic, maxMessageBytes).map((each) => Buffer.from(each))
    return fromRedis(['1-0', fields])
  },
  SQS: (message) => {
    const { body, attributes } = toSqs(message, { maxMessageBytes, attributes: ['tenant'] })
    return fromSqs({ MessageId: '7', Body: body, MessageAttributes: attributes })
  },
  'pg-boss': (message) => {
    const { id, job } = outgoingJob(message, {
      ...{ queue: topic, data: 'envelope', options: {}, maxMessageBytes },
    })
    return fromPgBoss({ id, data: Reflect.get(job, 'data') as unknown })
  },
  'a webhook': (message) =>
    fromWebhook(signed('standard', { body: message.text(), headers: wireHeaders(message, {}) }), {
      ...{ scheme: 'standard', source: 'shop', secret: SECRETS.standard },
    }),
}

const HEADERS = {
  tenant: 'north',
  'txbox-causation-id': 'm-0',
  'txbox-error': 'no such order',
  'txbox-deliveries': '3',
  'txbox-source': 'rabbitmq orders',
  'txbox-left-out': 'header large',
  'txbox-original-id': 'm-1',
}

test.for(Object.entries(CARRIERS))(
  'O13 a handler may publish the headers of a message again that it has received from %s',
  ([, carried]) => {
    const message = outboxMessage({
      ...{ topic, id: 'msg_1', type: 'order.paid', key: 'order 7', correlationId: 'c-1', headers: HEADERS },
    })
    const received = carried(message)
    expect(received).toMatchObject({
      id: 'msg_1',
      type: 'order.paid',
      correlationId: 'c-1',
      payload: { n: 1 },
    })
    expect(received.headers).toEqual(HEADERS)
    const [again] = encodeMessages({ where: 'publish', topic }, [{ payload: 1, headers: received.headers }])
    expect(again?.headers).toEqual(HEADERS)
  },
)
