import { setTimeout as pause } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { OutboxMessage, PublishResult } from '@txbox/rabbitmq'
import {
  OFFENCE,
  failure,
  outboxMessage,
  outboxMessages,
  publish,
  reason,
  signal,
  summary,
  useBroker,
} from './broker-under-test.ts'

const broker = useBroker()

describe('O11 a message that AMQP cannot represent is rejected permanently, before it is sent; the others are published', () => {
  const wrong: Record<string, [Partial<OutboxMessage>, RegExp]> = {
    'an id of 256 bytes': [{ id: 'ü'.repeat(128) }, /its id has 256 bytes in UTF-8; AMQP allows 255/],
    'an id that is no Unicode': [{ id: 'a\uD800' }, /its id contains a lone surrogate/],
    'a topic of 256 bytes': [{ topic: `a${'日'.repeat(85)}` }, /its topic has 256 bytes/],
    'a type of 256 bytes': [{ type: 'x'.repeat(256) }, /its type has 256 bytes/],
    'a correlation id of 256 bytes': [{ correlationId: 'x'.repeat(256) }, /its correlation id has 256 bytes/],
    'a content type of 256 bytes': [{ contentType: 'x'.repeat(256) }, /its content type has 256 bytes/],
    'headers of more than 64 KiB': [
      { headers: { a: 'x'.repeat(65_536) } },
      /cannot be encoded in AMQP: its headers have 65\d{3} bytes; 65536 can be sent/,
    ],
    'a header name of 256 bytes': [
      { headers: { ['x'.repeat(256)]: '' } },
      /cannot be encoded in AMQP: the name of its header 'x+…' has 256 bytes in UTF-8; AMQP allows 255/,
    ],
    'no time of creation': [{ createdAt: new Date(Number.NaN) }, /its time of creation is no valid date/],
    'a key that is no Unicode': [{ key: 'a\uD800' }, /its key contains a lone surrogate/],
    'a header whose name is no Unicode': [
      { headers: { ok: 'a', 'b\uDC00': 'c' } },
      /its header 'b\uFFFD' has a name that contains a lone surrogate/,
    ],
    'a header whose value is no Unicode': [
      { headers: { ok: 'a', tenant: '\uD83D b' } },
      /its header 'tenant' has a value that contains a lone surrogate/,
    ],
    'a header CC': [{ headers: { CC: 'orders' } }, /a header 'CC', which RabbitMQ obeys.*another name/],
    'a header BCC': [{ headers: { BCC: '' } }, /a header 'BCC', which RabbitMQ obeys.*another name/],
    'too large a payload': [
      { payload: Buffer.alloc(5001) },
      /a payload of 5001 bytes; 'maxMessageBytes' is 5000/,
    ],
  }

  for (const [name, [message, text]] of Object.entries(wrong)) {
    test(name, async () => {
      const queue = await broker.queue()
      const publisher = broker.publisher({ exchange: '', maxMessageBytes: 5000 })
      const [before, after] = outboxMessages(queue, 2)
      const refused = outboxMessage({ topic: queue, ...message })
      const results = await publish(publisher, [before!, refused, after!])
      expect(summary(results)).toEqual(['accepted', 'rejected for good', 'accepted'])
      expect(reason(results[1])).toMatch(text)
      expect(reason(results[1])).toContain(refused.id.toWellFormed())
      expect(await broker.ids(queue)).toEqual([before?.id, after?.id])
    })
  }

  test('none of them makes RabbitMQ close the channel: no neighbour arrives twice', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const neighbours = outboxMessages(queue, 300)
    const bad = Object.values(wrong).map(([fields]) => outboxMessage({ topic: queue, ...fields }))
    const messages = [...neighbours.slice(0, 150), ...bad, ...neighbours.slice(150)]
    const results = await publish(broker.publisherAt(proxy, { maxMessageBytes: 5000 }), messages)
    expect(summary(results)).toEqual(
      messages.map((message) => (bad.includes(message) ? 'rejected for good' : 'accepted')),
    )
    expect(await broker.ids(queue)).toEqual(neighbours.map(({ id }) => id))
    expect([proxy.connections, proxy.channels]).toEqual([1, 1])
  })

  test('headers with names like CC, which RabbitMQ does not obey, arrive unchanged', async () => {
    const queue = await broker.queue()
    const headers = { cc: 'a', Bcc: 'b', CCC: 'c' }
    expect(
      summary(await publish(broker.publisher({ exchange: '' }), [outboxMessage({ topic: queue, headers })])),
    ).toEqual(['accepted'])
    const [taken] = await broker.take(queue)
    expect(taken?.properties.headers).toMatchObject(headers)
  })

  test('headers that do not fit into a frame of the connection', async () => {
    const queue = await broker.queue()
    const publisher = broker.publisher({ exchange: '', url: `${broker.url}?frameMax=8192` })
    const withHeader = (length: number): OutboxMessage =>
      outboxMessage({
        id: 'id',
        topic: queue,
        key: 'ü',
        type: 'a.type',
        correlationId: 'correlation',
        contentType: 'text/plain',
        headers: { größe: 'x'.repeat(length) },
      })
    const [tooLong] = await publish(publisher, [withHeader(20_000)])
    expect(reason(tooLong)).toContain('the connection to RabbitMQ allows 8192')
    const room = 8192 - (Number(/properties of (\d+) bytes/.exec(reason(tooLong))![1]) - 20_000)
    expect(summary(await publish(publisher, [withHeader(room)]))).toEqual(['accepted'])
    expect(summary(await publish(publisher, [withHeader(room + 1)]))).toEqual(['rejected for good'])
    expect(await broker.ids(queue)).toEqual(['id'])
  })

  test('a call with only such messages ends at once', async () => {
    const publisher = broker.publisher({ exchange: '', maxMessageBytes: 5000 })
    const refused = [{ payload: Buffer.alloc(5001) }, { id: 'a\uD800' }].map((wrong) =>
      outboxMessage({ topic: 'a', ...wrong }),
    )
    const startedAt = performance.now()
    expect(summary(await publish(publisher, refused))).toEqual(['rejected for good', 'rejected for good'])
    expect(performance.now() - startedAt).toBeLessThan(5000)
  })

  test('a message of the maximum size is accepted', async () => {
    const queue = await broker.queue()
    const id = `a${'ü'.repeat(127)}`
    const properties = {
      type: 'x'.repeat(255),
      correlationId: '日'.repeat(85),
      contentType: 'x'.repeat(255),
      headers: { a: 'x'.repeat(65_000), ['x'.repeat(255)]: '' },
    }
    const publisher = broker.publisher({ exchange: '', maxMessageBytes: 5000 })
    const message = outboxMessage({ id, topic: queue, payload: Buffer.alloc(5000), ...properties })
    expect(summary(await publish(publisher, [message]))).toEqual(['accepted'])
    const [taken] = await broker.take(queue)
    expect(taken?.properties.messageId === id).toBe(true)
    expect(taken?.properties.headers).toMatchObject(properties.headers)
    const { type, correlationId, contentType } = taken!.properties
    expect([type, correlationId, contentType]).toEqual([
      properties.type,
      properties.correlationId,
      properties.contentType,
    ])
  })
})

describe('a message on which the broker closes the channel', () => {
  test('O11 the message is rejected permanently; the others of the call are published', async () => {
    const queue = await broker.queue()
    const messages = outboxMessages(queue, 200)
    for (const n of [0, 57, 58, 199]) messages[n] = outboxMessage({ topic: queue, ...OFFENCE })
    const results = await publish(broker.publisherAt(await broker.offendingProxy()), messages)
    expect(summary(results)).toEqual(
      messages.map(({ headers }) => ('cc' in headers ? 'rejected for good' : 'accepted')),
    )
    expect(reason(results[57])).toMatch(/was refused by RabbitMQ: PRECONDITION_FAILED.*CC/)
    expect(reason(results[57])).toContain(messages[57]?.id)
    const accepted = messages.filter(({ headers }) => !('cc' in headers)).map(({ id }) => id)
    expect(new Set(await broker.ids(queue))).toEqual(new Set(accepted))
  })

  test('the messages of concurrent calls are published, too', async () => {
    const queue = await broker.queue()
    const publisher = broker.publisherAt(await broker.offendingProxy())
    const calls = Array.from({ length: 6 }, (_, n) => {
      const messages = outboxMessages(queue, 30)
      if (n % 2 === 0) messages[n] = outboxMessage({ topic: queue, ...OFFENCE })
      return messages
    })
    const results = await Promise.all(calls.map((messages) => publish(publisher, messages)))
    for (const [n, messages] of calls.entries()) {
      expect(summary(results[n]!)).toEqual(
        messages.map(({ headers }) => ('cc' in headers ? 'rejected for good' : 'accepted')),
      )
    }
    const accepted = calls.flat().filter(({ headers }) => !('cc' in headers))
    expect(new Set(await broker.ids(queue))).toEqual(new Set(accepted.map(({ id }) => id)))
  })

  test('messages that were already confirmed are not sent again', async () => {
    const queue = await broker.queue()
    const messages = [...outboxMessages(queue, 2000), outboxMessage({ topic: queue, ...OFFENCE })]
    const results = await publish(broker.publisherAt(await broker.offendingProxy()), messages)
    expect(summary(results)).toEqual(messages.map((_, n) => (n < 2000 ? 'accepted' : 'rejected for good')))
    const there = await broker.ids(queue)
    expect(new Set(there).size).toBe(2000)
    expect(there.length).toBeLessThan(4000)
  })

  // Otherwise the relay would abort a long call that makes progress, and publish all its messages again.
  test('the results of messages that are sent alone are reported one by one', async () => {
    const proxy = await broker.offendingProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 500 })
    const messages = [outboxMessage({ topic: queue, ...OFFENCE }), ...outboxMessages(queue, 3)]
    const reported: [number, string][] = []
    const answered = (index: number, { status }: PublishResult): void => void reported.push([index, status])
    proxy.hideConfirm(3)
    await publisher.publish(messages, { signal: signal(), answered })
    expect(reported).toEqual([
      [0, 'rejected'],
      [1, 'accepted'],
      [2, 'accepted'],
      [3, 'rejected'],
    ])
  })

  test('messages without a queue are still distinguished', async () => {
    const queue = await broker.queue()
    const messages = [
      outboxMessage({ topic: queue }),
      outboxMessage({ topic: queue, ...OFFENCE }),
      outboxMessage({ topic: broker.name('queue') }),
      outboxMessage({ topic: queue, type: 'x'.repeat(256) }),
    ]
    const results = await publish(broker.publisherAt(await broker.offendingProxy()), messages)
    expect(summary(results)).toEqual([
      'accepted',
      'rejected for good',
      'rejected for now',
      'rejected for good',
    ])
  })

  test('the publisher connects again afterwards, and sends all messages together', async () => {
    const proxy = await broker.offendingProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    for (let round = 0; round < 3; round += 1) {
      const messages = [outboxMessage({ topic: queue, ...OFFENCE }), ...outboxMessages(queue, 2)]
      expect(summary(await publish(publisher, messages))).toEqual([
        'rejected for good',
        'accepted',
        'accepted',
      ])
    }
    expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
    expect(proxy.connections).toBe(4)
    expect(proxy.channels).toBe(1)
  })

  test('O4 O15 a message that is sent alone and is not confirmed is rejected without counting, and the others are sent', async () => {
    const proxy = await broker.offendingProxy()
    const [queue, other] = [await broker.queue(), await broker.queue()]
    const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 300 })
    proxy.hideConfirm(1)
    const call = publish(publisher, [
      outboxMessage({ topic: queue, ...OFFENCE }),
      ...outboxMessages(queue, 2),
      outboxMessage({ topic: other }),
    ])
    await expect.poll(() => proxy.connections, { interval: 1, timeout: 10_000 }).toBe(3)
    proxy.showConfirms()
    const results = await call
    expect(summary(results)).toEqual([
      'rejected for good',
      'rejected for now',
      'rejected for now',
      'accepted',
    ])
    expect(results[1]).toMatchObject({ counted: false })
    expect(results[2]).toMatchObject({ counted: false })
  })

  test('O6 when a message is sent alone and the broker does not answer, publish throws, and sends no more messages', async () => {
    const proxy = await broker.offendingProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy, { confirmTimeoutMs: 2000 })
    proxy.hideConfirm(1)
    const [alone, behind] = outboxMessages(queue, 2)
    const call = failure(publish(publisher, [outboxMessage({ topic: queue, ...OFFENCE }), alone!, behind!]))
    await expect.poll(async () => (await broker.channel.checkQueue(queue)).messageCount).toBe(1)
    proxy.hold()
    expect((await call).message).toContain('left 2 of 3 messages unconfirmed for 2000 ms')
    await expect.poll(() => proxy.open).toBe(0)
    expect(await broker.ids(queue)).toEqual([alone?.id])
  })

  test('O6 when a message is sent alone and is aborted, publish throws, and sends no more messages', async () => {
    const proxy = await broker.offendingProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    proxy.hideConfirm(1)
    const [alone, behind] = outboxMessages(queue, 2)
    const abort = new AbortController()
    const call = failure(
      publish(publisher, [outboxMessage({ topic: queue, ...OFFENCE }), alone!, behind!], abort.signal),
    )
    while ((await broker.channel.checkQueue(queue)).messageCount === 0) await pause(1)
    await pause(100)
    abort.abort(new Error('enough'))
    expect((await call).message).toBe('enough')
    await expect.poll(() => proxy.open).toBe(0)
    expect(await broker.ids(queue)).not.toContain(behind?.id)
  })

  // Simulated, because users and their permissions cannot be created with AMQP.
  test('if the user may not write to the exchange, no message is rejected, and publish throws with the reason', async () => {
    const proxy = await broker.frameProxy()
    const exchange = await broker.exchange()
    const publisher = broker.publisher({ url: broker.urlAt(proxy.address), exchange, assertExchange: false })
    await publish(publisher, outboxMessages('a', 1))
    proxy.hold()
    const call = failure(publish(publisher, outboxMessages('a', 2)))
    proxy.closeChannel(1, 403, `ACCESS_REFUSED - access to exchange '${exchange}' in vhost '/' refused`)
    proxy.release()
    const { message } = await call
    expect(message).toContain(`Give the user the permission to write to exchange '${exchange}'`)
  })

  test('if the user may not use some routing keys, messages with other routing keys are published', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    await publish(publisher, outboxMessages(queue, 1))
    proxy.hold()
    const call = publish(publisher, outboxMessages(queue, 2))
    proxy.closeChannel(1, 403, "ACCESS_REFUSED - access to topic 'a' in exchange 'b' in vhost '/' refused")
    proxy.release()
    expect(summary(await call)).toEqual(['accepted', 'accepted'])
  })
})
