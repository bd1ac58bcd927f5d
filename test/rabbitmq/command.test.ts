import { expect, test } from 'vitest'
import { txbox } from '../cli/run-txbox.ts'
import { useShop } from '../cli/use-shop.ts'
import { useBroker } from './broker-under-test.ts'
import { Client } from 'pg'
import { createOutbox } from '@txbox/outbox'
import { postgres } from '@txbox/postgres'

const shop = useShop()
const broker = useBroker()
const outbox = createOutbox({ database: postgres() })

test('relay --publisher amqp:// publishes to RabbitMQ, with options from the URL', async () => {
  const queue = await broker.queue({ type: 'quorum' })
  const client = new Client(shop.url)
  await client.connect()
  await client.query('BEGIN')
  await outbox.publish(client, { topic: queue, payload: { n: 1 }, id: 'order 1' })
  await client.query('COMMIT')
  await client.end()
  const { username, password, host } = new URL(broker.url)
  const [user, secret] = [username === '' ? 'guest' : username, password === '' ? 'guest' : password]
  const url = `amqp://${user}:\${BROKER_PASSWORD}@${host}?exchange=&heartbeat=5&confirmTimeoutMs=5000`
  const env = { DATABASE_URL: shop.url, BROKER_PASSWORD: decodeURIComponent(secret) }
  expect((await txbox(['relay', '--publisher', url, '--check'], env)).stderr).toContain('are ready')
  const { code, stderr } = await txbox(
    ['relay', '--publisher', url, '--drain', '--cloudevents', '/orders'],
    env,
  )
  expect(code, stderr).toBe(0)
  const [delivery] = await broker.take(queue)
  expect(delivery!.properties.headers).toMatchObject({
    'cloudEvents:id': 'order 1',
    'cloudEvents:source': '/orders',
  })
  const refused = await txbox(['relay', '--publisher', url, '--check'], {
    ...env,
    BROKER_PASSWORD: 'hidden-word',
  })
  expect([refused.code, refused.stderr]).toEqual([1, expect.not.stringContaining('hidden-word')])
  const both = await txbox(['relay', '--publisher', url, '--exchange', 'a', '--check'], env)
  expect([both.code, both.stderr]).toEqual([2, expect.stringContaining('give one of them')])
})
