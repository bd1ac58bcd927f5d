import { expect, test } from 'vitest'
import { fromSqs } from '@txbox/sqs'
import { relayToBroker } from '../../cli/relay-to-broker.ts'
import { txbox } from '../../cli/run-txbox.ts'
import { useShop } from '../../cli/use-shop.ts'
import { CREDENTIALS, REGION, useSqs } from '../sqs-under-test.ts'

// ElasticMQ has no SNS.
const shop = useShop()
const sqs = useSqs()

const environment = {
  AWS_ACCESS_KEY_ID: CREDENTIALS.accessKeyId,
  AWS_SECRET_ACCESS_KEY: CREDENTIALS.secretAccessKey,
}

test('relay --publisher sns:// publishes to a topic', async () => {
  const queue = await sqs.current.queue()
  const topic = sqs.current.name('topic')
  const { topicArn } = sqs.current.fauxqs!.createTopic(topic, {})
  sqs.current.fauxqs!.subscribe({ topic, queue, attributes: {} })
  const id = await relayToBroker(shop.url, topicArn, {
    publisher: `sns://${REGION}?endpoint=${sqs.current.endpoint}`,
    away: `sns://${REGION}?endpoint=http://127.0.0.1:1`,
    environment,
  })
  const [message] = await sqs.current.take(queue)
  expect(fromSqs(message!)).toMatchObject({ id, type: 'order.paid', payload: { n: 1 } })
})

test.for([
  ['sqs', 'SQS'],
  ['sns', 'SNS'],
] as const)(
  'relay --publisher %s: --check asks %s, with both clients installed',
  async ([scheme, service]) => {
    const publisher = `${scheme}://${REGION}?endpoint=http://127.0.0.1:1`
    const checked = await txbox(['relay', '--publisher', publisher, '--check'], {
      DATABASE_URL: shop.url,
      ...environment,
    })
    expect(checked.code).toBe(1)
    expect(checked.stderr).toContain(`${service} at 127.0.0.1:1 failed`)
  },
)
