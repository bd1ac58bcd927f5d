import { rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Client } from 'pg'
import { afterAll, expect, inject, onTestFinished, test } from 'vitest'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'
import { KafkaUnderTest, headerOf } from './kafka-under-test.ts'
import { txbox } from '../cli/run-txbox.ts'
import { useShop } from '../cli/use-shop.ts'

const shop = useShop()
const outbox = createOutbox({ database: postgres() })
const kafka = new KafkaUnderTest(inject('servers')['kafka']!)
afterAll(() => kafka.close())

test('relay --publisher kafka:// publishes to Kafka, as CloudEvents if it is asked to', async () => {
  const topic = await kafka.topic()
  const log = await kafka.log(topic)
  const client = new Client(shop.url)
  await client.connect()
  await client.query('BEGIN')
  await outbox.publish(client, {
    topic: 'orders',
    type: 'order.paid',
    key: 'k',
    payload: { n: 1 },
    id: 'order 1',
  })
  await client.query('COMMIT')
  await client.end()
  const map = path.join(tmpdir(), `txbox-${topic}.json`)
  await writeFile(map, JSON.stringify({ orders: topic }))
  onTestFinished(() => rm(map))
  const env = { DATABASE_URL: shop.url, KAFKA: kafka.address }
  const url = 'kafka://${KAFKA}?compression=gzip&clientId=shop'
  expect((await txbox(['relay', '--publisher', url, '--check'], env)).stderr).toContain('are ready')
  const { code, stderr } = await txbox(
    ['relay', '--publisher', url, '--drain', '--cloudevents', '/orders', '--topic-map', map],
    env,
  )
  expect(code, stderr).toBe(0)
  const [record] = await log.take()
  expect([headerOf(record!, 'ce_id'), headerOf(record!, 'ce_source')]).toEqual(['order 1', '/orders'])
  const away = await txbox(['relay', '--publisher', 'kafka://127.0.0.1:1', '--check'], env)
  expect([away.code, away.stderr]).toEqual([1, expect.stringMatching(/^txbox: .*Kafka/)])
})
