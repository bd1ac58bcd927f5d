import { expect, onTestFinished, test } from 'vitest'
import { fromNats } from '@txbox/nats'
import { failure, outboxMessage, publish, reason, signal, summary } from '../support/subjects/publishing.ts'
import { idsOf, useNats } from './nats-under-test.ts'

const nats = useNats()

test('a message has the fields and headers of its message, and arrives as it was published', async () => {
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const message = outboxMessage({
    topic: 'orders',
    type: 'order.paid',
    key: 'Straße/4 ✓',
    correlationId: 'c-1',
    contentType: 'text/plain',
    contentEncoding: 'gzip',
    headers: { tenant: 'north', 'content-type': "the message's own", constructor: 'a', '10': 'ten' },
    payload: Buffer.from([0, 255, 10]),
  })
  const publisher = nats.publisher({ subject: () => `${stream}.é.日本` })
  expect(summary(await publish(publisher, [message]))).toEqual(['accepted'])
  const [stored] = await take()
  expect(stored?.subject).toBe(`${stream}.é.日本`)
  expect(Buffer.from(stored!.data)).toEqual(Buffer.from([0, 255, 10]))
  expect(new Map(stored!.headers)).toEqual(
    new Map([
      ['tenant', ['north']],
      ['content-type', ["the message's own", 'text/plain']],
      ['constructor', ['a']],
      ['10', ['ten']],
      ['txbox-id', [message.id]],
      ['Nats-Msg-Id', [`${message.id} ${stream}.é.日本`]],
      ['txbox-type', ['order.paid']],
      ['txbox-key', ['Straße/4 ✓']],
      ['txbox-correlation-id', ['c-1']],
      ['content-encoding', ['gzip']],
      ['txbox-time', ['2026-03-04T05:06:07.890Z']],
    ]),
  )
})

test('what is published is what fromNats reads', async () => {
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const message = outboxMessage({
    topic: `${stream}.a`,
    type: 'order.paid',
    correlationId: 'c-1',
    headers: { tenant: 'north', 'content-type': 'own' },
    payload: Buffer.from('{"total":12}'),
  })
  await publish(nats.publisher({ stream }), [message])
  const [stored] = await take()
  expect(stored?.headers?.get('Nats-Expected-Stream')).toBe(stream)
  expect(fromNats(stored!)).toEqual({
    id: message.id,
    type: 'order.paid',
    correlationId: 'c-1',
    time: new Date('2026-03-04T05:06:07.890Z'),
    headers: { tenant: 'north', 'content-type': 'own' },
    payload: { total: 12 },
  })
})

test('a resend within the window of the stream is accepted, and is no second copy', async () => {
  const stream = await nats.stream({ duplicate_window: 100_000_000 })
  const take = await nats.log(stream)
  const message = outboxMessage({ topic: `${stream}.a` })
  const publisher = nats.publisher()
  for (let n = 0; n < 3; n += 1) expect(summary(await publish(publisher, [message]))).toEqual(['accepted'])
  expect((await take()).length).toBe(1)
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(summary(await publish(publisher, [message]))).toEqual(['accepted'])
  expect((await take()).length).toBe(1)
})

test('messages of one id on different subjects of a stream are both stored', async () => {
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const messages = ['a', 'b', 'a'].map((subject) =>
    outboxMessage({ topic: `${stream}.${subject}`, id: 'same' }),
  )
  expect(new Set(summary(await publish(nats.publisher(), messages)))).toEqual(new Set(['accepted']))
  const stored = await take()
  expect(stored.map(({ subject }) => subject).toSorted()).toEqual([`${stream}.a`, `${stream}.b`])
  expect(new Set(idsOf(stored))).toEqual(new Set(['same']))
})

test('a stream that goes away is an outage of its own, and works again when it is back', async () => {
  const [gone, other] = [await nats.stream(), await nats.stream()]
  const publisher = nats.publisher()
  const messages = [
    outboxMessage({ topic: `${gone}.a`, key: 'a' }),
    outboxMessage({ topic: `${other}.a`, key: 'b' }),
  ]
  expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted'])
  await nats.manager.streams.delete(gone)
  const unknown = outboxMessage({ topic: nats.name('missing') })
  const results = await publish(publisher, [...messages, unknown])
  expect(summary(results)).toEqual(['rejected for now', 'accepted', 'rejected for now'])
  expect(results[0]).toMatchObject({ counted: false })
  expect(results[2]).not.toHaveProperty('counted')
  expect(reason(results[2])).toContain(`'${unknown.topic}': no stream takes the subject`)
  await nats.manager.streams.add({ name: gone, subjects: [`${gone}.>`], storage: 'memory' })
  expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted'])
})

test('only the stream of the option takes the messages', async () => {
  const [stream, other] = [await nats.stream(), await nats.stream()]
  const publisher = nats.publisher({ stream })
  const results = await publish(publisher, [
    outboxMessage({ topic: `${other}.a` }),
    outboxMessage({ topic: `${stream}.a` }),
  ])
  expect(summary(results)).toEqual(['rejected for now', 'accepted'])
  expect(results[0]).not.toHaveProperty('counted')
  expect(reason(results[0])).toContain('expected stream does not match (10060)')
})

test('a message that is too large for its stream is rejected for good, and its neighbors are accepted', async () => {
  const stream = await nats.stream({ max_msg_size: 1000 })
  const messages = [10, 1000, 10].map((size) =>
    outboxMessage({ topic: `${stream}.a`, payload: new Uint8Array(size) }),
  )
  const results = await publish(nats.publisher(), messages)
  expect(summary(results)).toEqual(['accepted', 'rejected for good', 'accepted'])
  expect(reason(results[1])).toContain('(10054)')
})

test('a full stream rejects without counting, also one that is full for a single subject', async () => {
  const perSubject = { max_msgs_per_subject: 1, discard_new_per_subject: true }
  const stream = await nats.stream({ discard: 'new', ...(nats.isFrom210 ? perSubject : { max_msgs: 1 }) })
  const publisher = nats.publisher()
  const message = (): ReturnType<typeof outboxMessage> => outboxMessage({ topic: `${stream}.a` })
  expect(summary(await publish(publisher, [message()]))).toEqual(['accepted'])
  const [result] = await publish(publisher, [message()])
  expect(result).toMatchObject({ status: 'rejected', retryable: true, counted: false })
  expect(reason(result)).toMatch(/maximum messages .*\(10077\)/)
})

test('an answer of something else than a stream accepts nothing', async () => {
  const subject = nats.name('service')
  const answers = [
    '{}',
    '{"type":"a","success":true}',
    'OK',
    '',
    '{"stream":""}',
    '{"error":{"message":"a"}}',
    'null',
    '{"stream":"a"}',
  ]
  let turn = 0
  const service = nats.connection.subscribe(subject, {
    callback: (_error, message) => void message.respond(answers[(turn += 1) - 1]),
  })
  onTestFinished(() => service.unsubscribe())
  await nats.connection.flush()
  const messages = answers.map(() => outboxMessage({ topic: subject }))
  const results = await publish(nats.publisher(), messages)
  expect(new Set(summary(results))).toEqual(new Set(['rejected for now']))
  expect(reason(results[0])).toContain('something else than a stream has answered')
})

test('a subject that nobody confirms waits without counting, while others are confirmed; alone, it is an outage', async () => {
  const stream = await nats.stream()
  const silent = nats.name('silent')
  const listener = nats.connection.subscribe(silent, { callback: () => undefined })
  onTestFinished(() => listener.unsubscribe())
  await nats.connection.flush()
  const publisher = nats.publisher({ confirmTimeoutMs: 500 })
  const stuck = [outboxMessage({ topic: silent, key: 'a' }), outboxMessage({ topic: silent })]
  const working = publish(publisher, [...stuck, outboxMessage({ topic: `${stream}.a`, key: 'a' })])
  const others = setInterval(
    () => void publish(publisher, [outboxMessage({ topic: `${stream}.b` })]).catch(() => undefined),
    50,
  )
  onTestFinished(() => clearInterval(others))
  const results = await working
  expect(summary(results)).toEqual(['rejected for now', 'rejected for now', 'skipped'])
  expect(results[0]).toMatchObject({ counted: false })
  expect(reason(results[1])).toContain(
    'no message of this subject was confirmed within 500 ms, while others were',
  )
  clearInterval(others)
  await new Promise((resolve) => setTimeout(resolve, 600))
  await expect(publish(publisher, stuck)).rejects.toThrow('it confirmed nothing within 500 ms')
  expect(summary(await publish(publisher, [outboxMessage({ topic: `${stream}.a` })]))).toEqual(['accepted'])
})

test('confirmations of a slow subject start the time again', async () => {
  const subject = nats.name('slow')
  const slow = nats.connection.subscribe(subject, {
    callback: (_error, message) => {
      setTimeout(() => message.respond('{"stream":"a","seq":1}'), 200 * Number(String(message.data)))
    },
  })
  onTestFinished(() => slow.unsubscribe())
  await nats.connection.flush()
  const messages = [1, 2, 3, 4, 5].map((n) =>
    outboxMessage({ topic: subject, payload: Buffer.from(String(n)) }),
  )
  const results = await publish(nats.publisher({ confirmTimeoutMs: 400 }), messages)
  expect(new Set(summary(results))).toEqual(new Set(['accepted']))
})

test('messages beyond maxInFlight wait for their turn, and large ones for memory', async () => {
  const stream = await nats.stream()
  const take = await nats.log(stream)
  const small = Array.from({ length: 200 }, () => outboxMessage({ topic: `${stream}.a` }))
  expect(new Set(summary(await publish(nats.publisher({ maxInFlight: 1 }), small)))).toEqual(
    new Set(['accepted']),
  )
  expect(idsOf(await take())).toEqual(small.map(({ id }) => id))
  const large = Array.from({ length: 50 }, () =>
    outboxMessage({ topic: `${stream}.a`, payload: new Uint8Array(1_000_000) }),
  )
  expect(new Set(summary(await publish(nats.publisher(), large)))).toEqual(new Set(['accepted']))
})

test('a call that is aborted sends nothing that waits for its turn', async () => {
  const subject = nats.name('silent')
  let received = 0
  const listener = nats.connection.subscribe(subject, { callback: () => void (received += 1) })
  onTestFinished(() => listener.unsubscribe())
  await nats.connection.flush()
  const publisher = nats.publisher({ maxInFlight: 2 })
  const abort = new AbortController()
  const messages = Array.from({ length: 20 }, () => outboxMessage({ topic: subject }))
  const working = failure(publish(publisher, messages, abort.signal))
  await expect.poll(() => received).toBe(2)
  abort.abort(new Error('stop now'))
  expect((await working).message).toBe('stop now')
  await publisher.check!({ signal: signal() })
  await nats.connection.flush()
  expect(received).toBe(2)
})

test('a message above maxMessageBytes is rejected for good', async () => {
  const stream = await nats.stream()
  const publisher = nats.publisher({ maxMessageBytes: 500 })
  const results = await publish(publisher, [
    outboxMessage({ topic: `${stream}.a`, payload: new Uint8Array(200) }),
    outboxMessage({ topic: `${stream}.a`, payload: new Uint8Array(400) }),
    outboxMessage({ topic: `${stream}.a`, headers: { large: 'x'.repeat(500) }, payload: new Uint8Array(1) }),
  ])
  expect(summary(results)).toEqual(['accepted', 'rejected for good', 'rejected for good'])
  expect(reason(results[1])).toMatch(
    /payload has 400 bytes; its \d+ bytes of headers leave \d+ of the 500 bytes/,
  )
})

test('an option subject that fails rejects its message for now, by its id', async () => {
  const stream = await nats.stream()
  const publisher = nats.publisher({
    subject: ({ key }) => {
      if (key === 'bad') throw new Error('no such route')
      return key === 'none' ? (undefined as never) : `${stream}.a`
    },
  })
  const messages = ['good', 'bad', 'none'].map((key) => outboxMessage({ topic: 'any', key }))
  const results = await publish(publisher, messages)
  expect(summary(results)).toEqual(['accepted', 'rejected for now', 'rejected for now'])
  expect(reason(results[1])).toContain(
    `${messages[1]!.id} has no subject, because the option 'subject' failed: no such route`,
  )
})
