import { expect, test } from 'vitest'
import { relayToBroker } from '../cli/relay-to-broker.ts'
import { useShop } from '../cli/use-shop.ts'
import { useRedis } from './redis-under-test.ts'
import { StreamLog, idOf, urlAt } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'

const shop = useShop()
const redis = useRedis()

test('relay --publisher redis:// publishes to a stream, with the prefix of the URL before the topic', async () => {
  const topic = uniqueName('stream')
  const id = await relayToBroker(shop.url, topic, {
    publisher: `${urlAt(redis.address)}?prefix=shop:&maxLength=1000`,
    away: 'redis://:secret@127.0.0.1:1',
  })
  const entries = await new StreamLog(redis, `shop:${topic}`).take()
  expect(entries.map(idOf)).toEqual([id])
})
