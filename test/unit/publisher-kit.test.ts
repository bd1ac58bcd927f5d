import { expect, test } from 'vitest'
import {
  BrokerUnavailableError,
  OrderedBatch,
  SharedConnection,
  reasonOf,
  unlessAborted,
  type Connection,
  type Publisher,
} from '@txbox/core'
import { publisherContract, type ArrivedMessage } from '@txbox/testing'

/** A publisher of a third party, which sends what may be in flight together as one wave. */
class OwnPublisher implements Publisher {
  readonly ordering = 'per-key'
  readonly #arrived: ArrivedMessage[]
  readonly #shared = new SharedConnection(
    async (): Promise<Connection> => ({
      failure: undefined,
      drop: () => undefined,
      close: async () => undefined,
    }),
    () => new BrokerUnavailableError('The publisher is closed.'),
  )

  constructor(arrived: ArrivedMessage[]) {
    this.#arrived = arrived
  }

  async publish(...[messages, { signal }]: Parameters<Publisher['publish']>) {
    const batch = new OrderedBatch(messages)
    await this.#shared.get(signal)
    while (batch.unknown > 0) {
      const due = batch.due()
      await unlessAborted(new Promise(setImmediate), signal)
      for (const index of due) {
        const { id, topic, payload } = messages[index]!
        if (topic === 'good') {
          this.#arrived.push({ id, payload: payload.slice() })
          batch.settle(index, { status: 'accepted' })
        } else {
          const error = new Error(`Message ${id} has no queue`, { cause: new Error(`no ${topic}`) })
          batch.settle(index, { status: 'rejected', retryable: true, error: new Error(reasonOf(error)) })
        }
      }
    }
    return batch.results.map((result) => result!)
  }

  close(): Promise<void> {
    return this.#shared.close()
  }
}

const cases = publisherContract({ ordering: 'per-key' }, async () => {
  const arrived: ArrivedMessage[] = []
  const publisher = new OwnPublisher(arrived)
  return { publisher, goodTopic: 'good', badTopic: 'bad', arrived: async () => arrived.splice(0) }
})

test.for(cases.filter(({ rule }) => /^[PS]|^O[124]|V[15]/.test(rule)))(
  'a publisher of the parts that @txbox/core exports: $name',
  async ({ run }, { skip }) => run({ skip: (reason) => skip(reason) }),
)

test('a reason has the causes and no password', () => {
  const error = new TypeError('fetch failed', { cause: new Error('amqp://user:hidden@host refused') })
  expect(reasonOf(error)).toBe('fetch failed: amqp://user:***@host refused')
})
