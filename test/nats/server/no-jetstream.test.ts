import { afterAll, beforeAll, expect, test } from 'vitest'
import { failure, outboxMessage, publish, signal } from '../../support/subjects/publishing.ts'
import { NatsProgram } from './nats-program.ts'

const server = new NatsProgram(() => '')
beforeAll(() => server.start())
afterAll(() => server.close())

test('a server without JetStream is an outage, which check reports', async () => {
  const publisher = server.nats.publisher()
  for (const call of [
    () => publish(publisher, [outboxMessage({ topic: 'orders' })]),
    () => publisher.check!({ signal: signal() }),
  ]) {
    const error = await failure(call())
    expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE', retryable: true })
    expect(error.message).toMatch(/jetstream is not enabled/)
  }
})
