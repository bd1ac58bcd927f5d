import { expect, test } from 'vitest'
import { fromNats } from '@txbox/nats'
import { relayToBroker } from '../cli/relay-to-broker.ts'
import { useShop } from '../cli/use-shop.ts'
import { useNats } from './nats-under-test.ts'

const shop = useShop()
const nats = useNats()

test('relay --publisher nats:// publishes to JetStream', async () => {
  const stream = await nats.stream()
  const taken = await nats.log(stream)
  const { host, port } = nats.address
  const id = await relayToBroker(shop.url, `${stream}.orders`, {
    publisher: `nats://\${NATS}?stream=${stream}`,
    away: 'nats://user:secret@127.0.0.1:1',
    environment: { NATS: `${host}:${port}` },
  })
  const [message] = await taken()
  expect(fromNats(message!)).toMatchObject({ id, type: 'order.paid', payload: { n: 1 } })
})
