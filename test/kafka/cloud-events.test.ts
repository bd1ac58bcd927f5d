import { afterAll, expect, inject, test } from 'vitest'
import { cloudEvents } from '@txbox/cloudevents'
import { fromKafka } from '@txbox/kafka'
import { outboxMessage, publish, summary } from '../support/subjects/publishing.ts'
import { KafkaUnderTest } from './kafka-under-test.ts'

const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

test('an event in binary mode passes Kafka, and is the message again', async () => {
  const topic = await kafka.topic()
  const log = await kafka.log(topic)
  const events = cloudEvents({ source: '/orders', publisher: kafka.publisher(), extensions: ['tenant'] })
  const headers = { tenant: 'nørth', other: 'x' }
  const fields = { id: 'order é', type: 'order.paid', correlationId: 'c', key: 'k', headers }
  expect(summary(await publish(events, [outboxMessage({ topic, ...fields })]))).toEqual(['accepted'])
  const [record] = await log.take()
  const attributes = new Map(record!.headers)
  expect(attributes.get('ce_specversion')).toBe('1.0')
  expect(attributes.get('ce_id')).toBe('order é')
  expect(attributes.get('ce_partitionkey')).toBe(String(record!.key))
  expect(attributes.get('content-type')).toBe('application/json')
  const message = fromKafka({
    value: record!.value,
    headers: Object.fromEntries(record!.headers),
    timestamp: 0,
  })
  expect(message).toEqual({
    ...{ id: 'order é', source: '/orders', type: 'order.paid', correlationId: 'c', headers },
    ...{ time: new Date('2026-03-04T05:06:07.890Z'), payload: { n: 1 } },
  })
})

test('an event of another producer needs no header of txbox', () => {
  const headers = {
    ...{
      ce_specversion: '1.0',
      ce_id: 'e-1',
      ce_source: '/shop',
      ce_type: 'order.paid',
      ce_dataschema: '/v1',
    },
    'content-type': 'application/json',
  }
  expect(fromKafka({ value: Buffer.from('{}'), headers, timestamp: 1000 })).toEqual({
    ...{ id: 'e-1', source: '/shop', type: 'order.paid', headers: { dataschema: '/v1' } },
    ...{ time: new Date(1000), payload: {} },
  })
  expect(() => fromKafka({ value: null, headers: { ce_id: 'e-1' } })).toThrow(/no message id/)
})
