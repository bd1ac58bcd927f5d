import { expect, test } from 'vitest'
import { fromSqs } from '@txbox/sqs'
import { relayToBroker } from '../cli/relay-to-broker.ts'
import { useShop } from '../cli/use-shop.ts'
import { CREDENTIALS, REGION, useSqs } from './sqs-under-test.ts'

const shop = useShop()
const sqs = useSqs()

test('relay --publisher sqs:// publishes to a queue, with the credentials that the AWS SDK finds', async () => {
  const queue = await sqs.current.queue()
  const id = await relayToBroker(shop.url, queue, {
    publisher: `sqs://${REGION}?endpoint=${sqs.current.endpoint}&concurrency=4`,
    away: `sqs://${REGION}?endpoint=http://127.0.0.1:1`,
    environment: {
      AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
    },
  })
  const [message] = await sqs.current.take(queue)
  expect(fromSqs(message!)).toMatchObject({ id, type: 'order.paid', payload: { n: 1 } })
})
