import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { kafkaPublisher, type KafkaPublisherOptions, type PublishResult, type Publisher } from '@txbox/kafka'
import { KafkaStandIn } from '../support/worlds/kafka-stand-in.ts'
import { failure, outboxMessage, publish, reason, signal, summary } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'

async function standIn(
  options: Partial<KafkaPublisherOptions> = {},
): Promise<{ broker: KafkaStandIn; publisher: Publisher }> {
  const broker = await KafkaStandIn.start()
  const publisher = kafkaPublisher({ brokers: [broker.address], connectTimeoutMs: 1000, ...options })
  onTestFinished(async () => {
    await publisher.close?.()
    await broker.close()
  })
  return { broker, publisher }
}

const PLAIN = { sasl: { mechanism: 'PLAIN', username: 'shop', password: 'secret-of-the-shop' } } as const

function bearer(token: () => Promise<string>): Partial<KafkaPublisherOptions> {
  return { sasl: { mechanism: 'OAUTHBEARER', token } }
}

/** A topic with one key for each of three partitions. */
async function oneKeyForEach(broker: KafkaStandIn, publisher: Publisher): Promise<readonly string[]> {
  const keys: string[] = []
  for (let n = 0; keys.filter(() => true).length < 3; n += 1) {
    await publish(publisher, [outboxMessage({ topic: 'orders', key: `key ${n}` })])
    keys[broker.received.at(-1)!.partition] ??= `key ${n}`
  }
  broker.received.length = broker.requests = broker.lookups = 0
  return keys
}

test('a connection that is reset during its login is an outage, and does not end the process', async () => {
  const { broker, publisher } = await standIn(PLAIN)
  broker.login = () => 'reset'
  for (let n = 0; n < 3; n += 1) {
    const error = await failure(publish(publisher, [outboxMessage({ topic: 'orders' })]))
    expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
    expect(error.message).toMatch(/ECONNRESET|Connection closed/)
  }
  // An error that nobody hears would come with the next events of the sockets.
  await pause(50)
  broker.login = () => ({})
  expect(summary(await publish(publisher, [outboxMessage({ topic: 'orders' })]))).toEqual(['accepted'])
})

test('a token that Kafka refuses is an error that says so, and so is one that is no token', async () => {
  const refused = await standIn(bearer(async () => 'a-token'))
  refused.broker.login = () => ({ says: '{"status":"invalid_token"}' })
  const error = await failure(refused.publisher.check!({ signal: signal() }))
  expect(error.message).toContain('Kafka refused the token: {"status":"invalid_token"}')
  expect(error.message).not.toContain('a-token')
  refused.broker.login = () => ({})
  await refused.publisher.check!({ signal: signal() })
  for (const token of [Symbol('a'), undefined, '', 'a\u0001b', {}]) {
    const { broker, publisher } = await standIn(bearer(async () => token as string))
    const wrong = await failure(publisher.check!({ signal: signal() }))
    expect(wrong.message).toContain("'sasl.token' must return a token")
    expect(broker.logins).toBe(0)
  }
  const { publisher } = await standIn(bearer(() => Promise.reject(new Error('no token today'))))
  expect((await failure(publisher.check!({ signal: signal() }))).message).toContain('no token today')
})

test('a login that expires is renewed, and a connection that the broker has closed logs in no more', async () => {
  const { broker, publisher } = await standIn(PLAIN)
  broker.login = () => ({ lifetimeMs: 100 })
  await publisher.check!({ signal: signal() })
  await until(
    async () => broker.logins >= 2,
    () => 'no second login',
  )
  broker.cut()
  const { logins } = broker
  await pause(200)
  expect(broker.logins).toBe(logins)
})

test('after an answer that the leader has moved, the topic is looked up at once, also by a call that does not wait', async () => {
  const { broker, publisher } = await standIn()
  await publish(publisher, [outboxMessage({ topic: 'orders' })])
  broker.answer = () => ({ code: 6 })
  const message = outboxMessage({ topic: 'orders', key: 'a' })
  expect(summary(await publish(publisher, [message]))).toEqual(['rejected for now'])
  for (let n = 0; n < 2; n += 1) {
    const { lookups } = broker
    const began = performance.now()
    expect(summary(await publish(publisher, [message]))).toEqual(['rejected for now'])
    expect(performance.now() - began).toBeLessThan(500)
    expect(broker.lookups).toBe(lookups + 1)
  }
  broker.answer = () => ({ code: 0 })
  expect(summary(await publish(publisher, [message]))).toEqual(['accepted'])
})

test('a partition without a leader holds up its own messages only', async () => {
  const { broker, publisher } = await standIn()
  const [a, b, c] = await oneKeyForEach(broker, publisher)
  const messages = [a, b, c].map((key) => outboxMessage({ topic: 'orders', key: key! }))
  await publish(publisher, [outboxMessage({ topic: 'other' })])
  broker.leader = (_, partition) => (partition === 1 ? -1 : 1)
  // The first answer that something has moved lets the publisher find out.
  broker.answer = ({ partition }) => ({ code: partition === 1 ? 6 : 0 })
  for (let n = 0; n < 2; n += 1) {
    const answers = new Map<number, PublishResult>()
    const began = performance.now()
    const results = await publisher.publish(messages, {
      signal: signal(),
      answered: (place, result) => {
        if (performance.now() - began < 500) answers.set(place, result)
      },
    })
    expect(results[1]).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(reason(results[1])).toContain('5 LEADER_NOT_AVAILABLE')
    expect(summary([results[0]!, results[2]!])).toEqual(['accepted', 'accepted'])
    expect(answers.size).toBe(n === 0 ? 2 : 3)
  }
  // Calls for that partition alone do not wait for each other, either.
  const alone = [1, 2, 3].map(() => publisher.publish([messages[1]!], { signal: AbortSignal.timeout(1000) }))
  for (const results of await Promise.all(alone)) expect(summary(results)).toEqual(['rejected for now'])
  // A publisher that does not know the topic yet finds its other partitions, too.
  const another = kafkaPublisher({ brokers: [broker.address] })
  onTestFinished(() => another.close?.())
  expect(summary(await publish(another, messages))).toEqual(['accepted', 'rejected for now', 'accepted'])
  broker.leader = () => 1
  broker.answer = () => ({ code: 0 })
  for (const each of [publisher, another]) {
    expect(summary(await publish(each, messages))).toEqual(['accepted', 'accepted', 'accepted'])
  }
})

test('a broker that is slow holds up its own partitions only', async () => {
  const { broker, publisher } = await standIn()
  const slow = await KafkaStandIn.start()
  onTestFinished(() => slow.close())
  const keys = await oneKeyForEach(broker, publisher)
  for (const each of [broker, slow]) {
    each.cluster = [broker, slow]
    each.leader = (_, partition) => (partition === 2 ? 2 : 1)
  }
  const fresh = kafkaPublisher({ brokers: [broker.address] })
  onTestFinished(() => fresh.close?.())
  const gate = Promise.withResolvers<void>()
  slow.gate = gate.promise
  const held = publish(fresh, [outboxMessage({ topic: 'orders', key: keys[2]! })])
  await until(
    async () => slow.requests === 1,
    () => 'no request',
  )
  for (let n = 0; n < 3; n += 1) {
    const messages = [0, 1].map((place) => outboxMessage({ topic: 'orders', key: keys[place]! }))
    expect(summary(await publish(fresh, messages))).toEqual(['accepted', 'accepted'])
  }
  gate.resolve()
  expect(summary(await held)).toEqual(['accepted'])
})

test.for([45, 59])('after the code %i nothing is sent again: the relay repeats', async (code) => {
  const { broker, publisher } = await standIn()
  await publish(publisher, [outboxMessage({ topic: 'orders' })])
  broker.requests = 0
  broker.answer = () => ({ code })
  const error = await failure(publish(publisher, [outboxMessage({ topic: 'orders' })]))
  expect(error.message).toContain(`the code ${code} for topic 'orders'`)
  await pause(100)
  expect(broker.requests).toBe(1)
})

test('closing ends a call at once that waits for a leader', async () => {
  const { broker, publisher } = await standIn()
  broker.answer = () => ({ code: 5 })
  const call = failure(publish(publisher, [outboxMessage({ topic: 'orders' })]))
  // By then, the call waits for 800 ms.
  await pause(1000)
  const began = performance.now()
  await publisher.close!()
  expect((await call).message).toContain('is closed')
  expect(performance.now() - began).toBeLessThan(200)
})

test('messages whose keys change topics again and again all get a result', async () => {
  const { broker, publisher } = await standIn()
  for (let round = 0; round < 30; round += 1) {
    const messages = Array.from({ length: 60 }, (_, n) =>
      outboxMessage({ topic: `topic ${(n * (round + 1)) % 5}`.replace(' ', '-'), key: `key ${n % 7}` }),
    )
    const call = publisher.publish(messages, { signal: AbortSignal.timeout(3000) })
    expect(new Set(summary(await call))).toEqual(new Set(['accepted']))
  }
  expect(broker.received.flatMap(({ records }) => records).length).toBe(1800)
})
