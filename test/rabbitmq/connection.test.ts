import { setTimeout as pause } from 'node:timers/promises'
import net from 'node:net'
import { inspect } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { BrokerUnavailableError, type PublishResult } from '@txbox/rabbitmq'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { failure, outboxMessage, outboxMessages, publish, summary, useBroker } from './broker-under-test.ts'

const broker = useBroker()

async function network(): Promise<UnreliableNetwork> {
  const made = await UnreliableNetwork.to(broker.address)
  onTestFinished(() => made.close())
  return made
}

test('O6 when an operator closes the connection, the call throws with the reason; the next call connects again', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy)
  await publish(publisher, outboxMessages(queue, 1))
  proxy.hold()
  const call = failure(publish(publisher, outboxMessages(queue, 3)))
  proxy.closeByForce('CONNECTION_FORCED - closed by the operator')
  const error = await call
  expect(error).toBeInstanceOf(BrokerUnavailableError)
  expect(error.message).toMatch(/^The connection to RabbitMQ at .* broke: .*closed by the operator/)
  proxy.release()
  expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  expect(proxy.connections).toBe(2)
})

test('O6 when the broker closes the channel while nothing is sent, the next call connects again, and leaves nothing open', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy)
  await publish(publisher, outboxMessages(queue, 1))
  proxy.closeChannel(1, 541, 'INTERNAL_ERROR')
  await pause(100)
  expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  expect(proxy.connections).toBe(2)
  await expect.poll(() => proxy.open).toBe(1)
})

test('closing a publisher whose connection broke does not wait for an answer', async () => {
  const proxy = await broker.frameProxy()
  const queue = await broker.queue()
  const publisher = broker.publisherAt(proxy)
  await publish(publisher, outboxMessages(queue, 1))
  proxy.cut()
  await pause(100)
  const startedAt = performance.now()
  await publisher.close?.()
  expect(performance.now() - startedAt).toBeLessThan(1000)
})

describe('connecting', () => {
  test('a publisher connects at the first message, and overlapping calls share one connection', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    expect(proxy.connections).toBe(0)
    const calls = Array.from({ length: 8 }, () => outboxMessages(queue, 25))
    const results = await Promise.all(calls.map((messages) => publish(publisher, messages)))
    expect(new Set(results.flatMap(summary))).toEqual(new Set(['accepted']))
    expect(proxy.connections).toBe(1)
    const ids = calls.flat().map(({ id }) => id)
    expect((await broker.ids(queue)).toSorted()).toEqual(ids.toSorted())
  })

  const secret = 's3cret%2Fpassword'
  const wrong: Record<string, { url: () => string; says: RegExp }> = {
    'nobody listens': {
      url: () => `amqp://user:${secret}@127.0.0.1:1/shop`,
      says: /^Cannot connect to RabbitMQ at 127.0.0.1:1, vhost 'shop': connect ECONNREFUSED 127.0.0.1:1\. Check that it runs/,
    },
    'there is no such host': {
      url: () => `amqp://user:${secret}@nowhere.invalid`,
      says: /^Cannot connect to RabbitMQ at nowhere.invalid:5672, vhost '\/': getaddrinfo \w+ nowhere.invalid\./,
    },
    'the password is wrong': {
      url: () => urlWith((url) => (url.password = secret)),
      says: /ACCESS_REFUSED.*Check .* user, password and vhost/,
    },
    'there is no such vhost': {
      url: () => urlWith((url) => (url.pathname = '/a%2Fb')),
      says: /vhost 'a\/b': it did not open the vhost/,
    },
    'it speaks no TLS': {
      url: () => urlWith((url) => (url.href = url.href.replace('amqp:', 'amqps:'))),
      says: /^Cannot connect .*SSL/,
    },
  }

  function urlWith(change: (url: URL) => void): string {
    const url = new URL(broker.url)
    change(url)
    return url.href
  }

  for (const [name, { url, says }] of Object.entries(wrong)) {
    test(`O6 ${name}: it throws soon, says why, and never shows the password`, async () => {
      const startedAt = performance.now()
      const error = await failure(publish(broker.publisher({ url: url() }), outboxMessages('a', 1)))
      expect(performance.now() - startedAt).toBeLessThan(5000)
      expect(error).toBeInstanceOf(BrokerUnavailableError)
      expect(error).toMatchObject({ retryable: true })
      expect(error.message).toMatch(says)
      expect(inspect(error, { depth: 10, showHidden: true })).not.toMatch(/s3cret|guest:guest/)
    })
  }

  test('O6 a server that does not answer: all waiting calls throw after connectTimeoutMs', async () => {
    const sockets = new Set<net.Socket>()
    const silent = net.createServer((socket) => void sockets.add(socket))
    await new Promise<void>((resolve) => void silent.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy()
      silent.close()
    })
    const { port } = silent.address() as net.AddressInfo
    const publisher = broker.publisher({ url: `amqp://127.0.0.1:${port}`, connectTimeoutMs: 100 })
    const calls = [1, 2].map(() => failure(publish(publisher, outboxMessages('a', 1))))
    for (const error of await Promise.all(calls))
      expect(error.message).toContain('did not answer within 100 ms')
    expect(sockets.size).toBe(1)
  })

  test('O6 a connection that breaks in the handshake', async () => {
    const between = await network()
    between.freeze()
    const call = failure(
      publish(broker.publisher({ url: broker.urlAt(between.address) }), outboxMessages('a', 1)),
    )
    setTimeout(() => between.cut(), 100)
    expect((await call).message).toMatch(/^Cannot connect to RabbitMQ at 127/)
  })
})

describe('a connection that breaks', () => {
  // The connection is cut after some confirms: the other messages may or may not have reached the broker.
  for (const acks of [0, 1, 3]) {
    test(`O1 O6 after ${acks} answers with confirms outstanding: the call throws, the next call works, and nothing is lost`, async () => {
      const proxy = await broker.frameProxy()
      const queue = await broker.queue({ type: 'quorum' })
      const publisher = broker.publisherAt(proxy)
      const before = outboxMessages(queue, 10)
      expect(new Set(summary(await publish(publisher, before)))).toEqual(new Set(['accepted']))
      const messages = outboxMessages(queue, 1500)
      proxy.cutAfter(acks)
      const error = await failure(publish(publisher, messages))
      expect(error).toBeInstanceOf(BrokerUnavailableError)
      expect(error.message).toMatch(
        /^The connection to RabbitMQ at 127.* broke: .*The result of the messages in flight is unknown/,
      )
      expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
      expect(proxy.connections).toBe(2)
      const there = new Set(await broker.ids(queue))
      expect([...before, ...messages].filter(({ id }) => !there.has(id))).toEqual([])
    })
  }

  test('O1 O6 again and again, while several calls are in flight: accepted messages have arrived', async () => {
    const between = await network()
    const queue = await broker.queue({ type: 'quorum' })
    const publisher = broker.publisherAt(between)
    const accepted: string[] = []
    let failures = 0
    const keepOn = async (): Promise<void> => {
      for (let round = 0; round < 12 || failures === 0 || accepted.length === 0; round += 1) {
        const messages = outboxMessages(queue, 100)
        const results: readonly PublishResult[] = await publish(publisher, messages).catch(() => {
          failures += 1
          return []
        })
        for (const [n, result] of results.entries())
          if (result.status === 'accepted') accepted.push(messages[n]!.id)
      }
    }
    let over = false
    const cutting = (async () => {
      // The cuts become less frequent: otherwise no message would get through on a busy machine.
      for (let pauseMs = 30; !over; pauseMs *= 1.05) {
        await pause(pauseMs)
        between.cut()
      }
    })()
    await Promise.all([keepOn(), keepOn(), keepOn()])
    over = true
    await cutting
    const there = new Set(await broker.ids(queue))
    expect(accepted.filter((id) => !there.has(id))).toEqual([])
  })

  test('while nothing is in flight: the next call works', async () => {
    const between = await network()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(between)
    await publish(publisher, outboxMessages(queue, 1))
    between.cut()
    // A second call opens a new connection, whether the break was already detected or not.
    await publish(publisher, outboxMessages(queue, 1)).catch(() => undefined)
    expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  })

  test('O6 a broker that stops and starts again', async () => {
    const between = await network()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(between)
    await publish(publisher, outboxMessages(queue, 1))
    await between.down()
    await failure(publish(publisher, outboxMessages(queue, 1)))
    expect((await failure(publish(publisher, outboxMessages(queue, 1)))).message).toContain('ECONNREFUSED')
    await between.up()
    expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  })

  test('large messages that were only half sent are not returned as other messages', async () => {
    const between = await network()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(between)
    const messages = Array.from({ length: 20 }, (_, n) =>
      outboxMessage({
        topic: queue,
        payload: Buffer.alloc(2_000_000, n),
        contentType: 'application/octet-stream',
      }),
    )
    await publish(publisher, outboxMessages(queue, 1))
    const call = failure(publish(publisher, messages))
    setTimeout(() => between.cut(), 10)
    await call
    expect(new Set(summary(await publish(publisher, messages)))).toEqual(new Set(['accepted']))
    const sizes = (await broker.take(queue)).slice(1).map(({ content }) => content.length)
    expect(new Set(sizes)).toEqual(new Set([2_000_000]))
  })
})
