import { onTestFinished } from 'vitest'
import { publisherContract } from '@txbox/testing'
import { fromRabbitmq, rabbitmqPublisher } from '@txbox/rabbitmq'
import { networkUnderTest, testContract } from '../support/subjects/contract-tests.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { outboxMessage, publish, useBroker } from './broker-under-test.ts'

const broker = useBroker()
const LARGEST_BYTES = 1_100_000

const cases = publisherContract(
  {
    ordering: 'per-key',
    answerTimeoutMs: 2000,
    wrongOptions: {
      'no URL': () => rabbitmqPublisher({} as never),
      'an unknown option': () => rabbitmqPublisher({ url: 'amqp://127.0.0.1', uri: '' } as never),
    },
  },
  async () => {
    const network = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => network.close())
    const queue = await broker.queue({ type: 'quorum' })
    const refused = new URL(broker.url)
    refused.password = 'hidden-word'
    const take = () => broker.take(queue)
    const full = await broker.queue({ arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } })
    await publish(broker.publisher({ exchange: '' }), [outboxMessage({ topic: full })])
    return {
      publisher: broker.publisher({
        url: broker.urlAt(network.address),
        exchange: '',
        maxMessageBytes: LARGEST_BYTES,
        confirmTimeoutMs: 1000,
        connectTimeoutMs: 1000,
      }),
      secret: new URL(broker.url).password,
      goodTopic: queue,
      badTopic: broker.name('missing'),
      network: networkUnderTest(network),
      tooLarge: LARGEST_BYTES + 1,
      poison: {
        'an id that is too long': { id: 'x'.repeat(256) },
        'a lone surrogate': { headers: { a: '\uD800' } },
        'a header that RabbitMQ obeys': { headers: { CC: 'other' } },
      },
      received: async () => (await take()).map((message) => fromRabbitmq(message)),
      full: { topic: full, free: async () => void (await broker.take(full)) },
      refused: { publisher: broker.publisher({ url: refused.href, exchange: '' }), secret: 'hidden-word' },
      unresolved: broker.publisher({ url: 'amqp://nowhere.invalid', exchange: '', connectTimeoutMs: 1000 }),
      arrived: async () =>
        (await take()).map(({ content, properties }) => ({
          id: String(properties.messageId),
          payload: content,
        })),
      readBack: async () =>
        (await take()).map(({ properties }) => {
          // A quorum queue adds its own header.
          const {
            'txbox-key': key,
            'txbox-time': time,
            'x-delivery-count': _,
            ...headers
          } = properties.headers as Record<string, string>
          const { messageId, type, correlationId, contentType } = properties as unknown as Record<
            string,
            string
          >
          const createdAt = new Date(time!)
          return { id: messageId!, type, key, correlationId, contentType, createdAt, headers }
        }),
    }
  },
)

testContract(cases)
