import { expect, test } from 'vitest'
import { natsSource } from '@txbox/nats'
import {
  failure,
  outboxMessage,
  publish,
  reason,
  signal,
  summary,
} from '../../support/subjects/publishing.ts'
import { useNatsProgram, withJetstream } from './nats-program.ts'

const MEMORY_BYTES = 65_536

const server = useNatsProgram(
  (folder) => `
${withJetstream(folder, `max_memory_store: ${MEMORY_BYTES}`)}
accounts {
  SHOP { jetstream: enabled, users: [{ user: shop, password: shop-word }] }
  PLAIN { users: [{ user: plain, password: plain-word }] }
}`,
  { user: 'shop', pass: 'shop-word' },
)

test('a server whose memory for streams is used up rejects without counting, and accepts when there is room', async () => {
  const { nats } = server
  const stream = await nats.stream({ storage: 'memory' })
  const publisher = nats.publisher({ user: 'shop', password: 'shop-word' })
  const messages = Array.from({ length: 100 }, () =>
    outboxMessage({ topic: `${stream}.a`, payload: new Uint8Array(1000) }),
  )
  const results = await publish(publisher, messages)
  const refused = results.filter(({ status }) => status === 'rejected')
  expect(refused.length).toBeGreaterThan(20)
  expect(new Set(summary(refused))).toEqual(new Set(['rejected for now']))
  for (const result of refused) expect(result).toMatchObject({ counted: false })
  expect(reason(refused[0])).toMatch(/insufficient|resource/)
  await nats.manager.streams.purge(stream)
  expect(summary(await publish(publisher, messages.slice(-2)))).toEqual(['accepted', 'accepted'])
})

test('an account without JetStream is an outage, for a publisher and a source', async () => {
  const { nats } = server
  const login = { user: 'plain', password: 'plain-word' }
  const publisher = nats.publisher(login)
  for (const call of [
    () => publish(publisher, [outboxMessage({ topic: 'orders' })]),
    () => publisher.check!({ signal: signal() }),
  ]) {
    const error = await failure(call())
    expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE', retryable: true })
    expect(error.message).toMatch(/JetStream not enabled for account/i)
  }
  const source = natsSource({
    servers: server.url,
    ...login,
    stream: 'ORDERS',
    consumer: 'billing',
    declare: {},
  })
  const error = await failure(source.open({ prefetch: 1, failed: () => undefined }))
  expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  expect(error.message).toMatch(/JetStream not enabled for account/i)
})
