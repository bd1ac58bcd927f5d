import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { natsSource, type NatsPublisherOptions } from '@txbox/nats'
import {
  failure,
  outboxMessage,
  publish,
  reason,
  signal,
  summary,
} from '../../support/subjects/publishing.ts'
import { until } from '../../support/worlds/until.ts'
import { idsOf } from '../nats-under-test.ts'
import { useNatsProgram, withJetstream } from './nats-program.ts'

const PASSWORD = 'pass-word/@:1'

const server = useNatsProgram(
  (folder) => `
${withJetstream(folder)}
authorization {
  users: [
    { user: admin, password: "${PASSWORD}" }
    { user: shop, password: "${PASSWORD}", permissions: { publish: ["orders.>"], subscribe: ["_INBOX.>"] } }
    { user: boxed, password: "${PASSWORD}", permissions: { publish: ["orders.>", "$JS.API.>"], subscribe: ["_INBOX_boxed.>"] } }
    { user: asker, password: "${PASSWORD}", permissions: { publish: ["orders.>", "$JS.API.>", "other.allowed"], subscribe: ["_INBOX.>"] } }
    { user: reader, password: "${PASSWORD}", permissions: { publish: ["$JS.API.>"], subscribe: ["_INBOX.>"] } }
  ]
}`,
  { user: 'admin', pass: PASSWORD },
)

const MESSAGE = () => outboxMessage({ topic: 'orders.paid' })
const as = (user: string): Partial<NatsPublisherOptions> => ({ user, password: PASSWORD })

test('a login by user and password, as options and in the URL', async () => {
  const { nats } = server
  const stream = await nats.stream({ subjects: ['orders.>'] })
  const take = await nats.log(stream)
  const encoded = encodeURIComponent(PASSWORD)
  for (const options of [as('admin'), { servers: `nats://admin:${encoded}@127.0.0.1:${server.port}` }]) {
    const message = MESSAGE()
    expect(summary(await publish(nats.publisher(options), [message]))).toEqual(['accepted'])
    expect(idsOf(await take())).toEqual([message.id])
  }
})

test('a wrong password, no login and a missing file are outages, whose reasons show no password', async () => {
  const { nats } = server
  const wrong = 'not-the-password'
  const file = path.join(server.folder, 'broken.creds')
  writeFileSync(file, wrong)
  const cases: readonly (readonly [Partial<NatsPublisherOptions>, RegExp])[] = [
    [
      { user: 'admin', password: wrong },
      /Cannot connect to NATS at 127\.0\.0\.1:\d+: 'Authorization Violation'|Authorization Violation/,
    ],
    [{ servers: `nats://admin:${wrong}@127.0.0.1:${server.port}` }, /Authorization Violation/],
    [{ token: wrong }, /Authorization Violation/],
    [{}, /Authorization Violation/],
    [{ credentialsFile: path.join(server.folder, 'none.creds') }, /ENOENT/],
    [{ credentialsFile: file }, /unable to parse credentials/],
    [{ servers: `tls://127.0.0.1:${server.port}`, ...as('admin') }, /server does not support 'tls'/],
  ]
  for (const [options, expected] of cases) {
    const publisher = nats.publisher({ ...options, connectTimeoutMs: 3000 })
    for (const call of [
      () => publish(publisher, [MESSAGE()]),
      () => publisher.check!({ signal: signal() }),
    ]) {
      const error = await failure(call())
      expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE', retryable: true })
      expect(error.message).toMatch(expected)
      expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain(wrong)
    }
  }
})

test('a subject to which the user may not publish rejects its messages for now; others are not disturbed', async () => {
  const { nats } = server
  const take = await nats.log(await nats.stream({ subjects: ['allowed.>', 'hidden.>'] }))
  const messages = ['orders.paid', 'hidden.a', 'hidden.a', 'hidden.b', 'orders.paid', 'hidden.a'].map(
    (topic) => outboxMessage({ topic }),
  )
  const results = await publish(nats.publisher(as('asker')), messages)
  expect(summary(results)).toEqual([
    ...[
      'accepted',
      'rejected for now',
      'rejected for now',
      'rejected for now',
      'accepted',
      'rejected for now',
    ],
  ])
  for (const n of [1, 2, 3, 5]) {
    expect(reason(results[n])).toContain(`'${messages[n]!.topic}': the user may not publish to the subject`)
    expect(results[n]).not.toHaveProperty('counted')
  }
  expect(await take()).toEqual([])
})

test('a user who may only publish needs no right to ask; a missing stream then waits, and the reason says why', async () => {
  const { nats } = server
  const publisher = nats.publisher(as('shop'))
  await publisher.check!({ signal: signal() })
  expect(summary(await publish(publisher, [MESSAGE()]))).toEqual(['accepted'])
  const results = await publish(nats.publisher({ ...as('shop'), subject: () => 'orders' }), [MESSAGE()])
  expect(summary(results)).toEqual(['rejected for now'])
  expect(reason(results[0])).toContain('the user may not publish to the subject')
  const [stream] = await nats.manager.streams.names().next()
  await nats.manager.streams.delete(stream!)
  for await (const each of nats.manager.streams.names()) await nats.manager.streams.delete(each)
  const [unheard] = await publish(nats.publisher(as('shop')), [MESSAGE()])
  expect(unheard).toMatchObject({ status: 'rejected', counted: false })
  expect(reason(unheard)).toContain('$JS.API.STREAM.NAMES')
  const [missing] = await publish(nats.publisher(as('asker')), [outboxMessage({ topic: 'other.allowed' })])
  expect(reason(missing)).toContain('no stream takes the subject')
  expect(missing).not.toHaveProperty('counted')
})

test('a user who may not receive answers publishes nothing; the option inboxPrefix names where it may', async () => {
  const { nats } = server
  const stream = await nats.stream({ subjects: ['orders.>'] })
  const take = await nats.log(stream)
  const error = await failure(publish(nats.publisher(as('boxed')), [MESSAGE()]))
  expect(error.message).toMatch(/Permissions Violation for Subscription to "_INBOX\./)
  expect(await take()).toEqual([])
  const publisher = nats.publisher({ ...as('boxed'), inboxPrefix: '_INBOX_boxed' })
  expect(summary(await publish(publisher, [MESSAGE()]))).toEqual(['accepted'])
  expect((await take()).length).toBe(1)
})

test('a message that a user without the right to settle cannot give back is delivered again, and ends no process', async () => {
  const { nats } = server
  const unhandled: unknown[] = []
  const note = (error: unknown): void => void unhandled.push(error)
  process.on('unhandledRejection', note)
  onTestFinished(() => void process.off('unhandledRejection', note))
  const stream = await nats.stream()
  const declare = { ackWaitMs: 1000 }
  const source = natsSource({ servers: server.url, ...as('reader'), stream, consumer: 'billing', declare })
  const opened = await source.open({ prefetch: 3, failed: () => undefined })
  const first = opened.receive(3, { signal: signal() })
  await nats.send(`${stream}.a`, ['a'])
  const [delivery] = await first
  await nats.send(`${stream}.a`, ['b', 'c'])
  const { manager } = nats
  await until(
    async () => (await manager.consumers.info(stream, 'billing')).num_ack_pending === 3,
    () => 'three messages are out',
  )
  opened.stopReceiving!()
  await expect(delivery!.accept({ beforeHandling: true })).rejects.toThrow(/Permissions Violation/i)
  await opened.close()
  const again = await source.open({ prefetch: 3, failed: () => undefined })
  onTestFinished(() => again.close())
  const [redelivered] = await again.receive(1, { signal: signal() })
  expect(redelivered!.deliveries).toBe(2)
  expect(unhandled).toEqual([])
})
