import { describe, expect, onTestFinished, test } from 'vitest'
import { BrokerUnavailableError, type Publisher } from '@txbox/rabbitmq'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'
import { failure, outboxMessages, publish, summary, useBroker } from './broker-under-test.ts'

const broker = useBroker()
const never = new AbortController().signal

function check(publisher: Publisher, signal = never): Promise<void> {
  return publisher.check!({ signal })
}

async function rejection(publisher: Publisher): Promise<string> {
  const error = await failure(check(publisher))
  expect(error).toBeInstanceOf(BrokerUnavailableError)
  return error.message
}

describe('check', () => {
  test('N1 check resolves if the broker would accept messages, publishes nothing and shares the connection', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    await check(publisher)
    expect(await broker.take(queue)).toEqual([])
    expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
    await check(publisher)
    expect(proxy.connections).toBe(1)
  })

  test('N1 N2 a wrong password is reported, but not shown', async () => {
    const url = new URL(broker.url)
    url.password = 'hidden-word'
    const message = await rejection(broker.publisher({ url: url.href }))
    expect(message).toMatch(/ACCESS_REFUSED/)
    expect(message).not.toContain('hidden-word')
  })

  test('N1 a missing exchange is named, and other calls continue', async () => {
    const publisher = broker.publisher({
      url: broker.url,
      exchange: 'no such exchange',
      assertExchange: false,
    })
    expect(await rejection(publisher)).toMatch(/exchange 'no such exchange': .*NOT_FOUND - no exchange/)
    expect(await rejection(publisher)).toMatch(/NOT_FOUND/)
  })

  test('N1 a broker that is unavailable, and later available again', async () => {
    const network = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => network.close())
    const publisher = broker.publisher({
      url: broker.urlAt(network.address),
      exchange: '',
      connectTimeoutMs: 500,
    })
    await check(publisher)
    await network.down()
    expect(await rejection(publisher)).toMatch(/^(The connection to|Cannot connect to) RabbitMQ/)
    expect(await rejection(publisher)).toMatch(/^Cannot connect to RabbitMQ/)
    await network.up()
    await check(publisher)
    network.freeze()
    expect(await rejection(publisher)).toMatch(/did not answer within 500 ms/)
  })

  test('check does not wait after its signal is aborted', async () => {
    const network = await UnreliableNetwork.to(broker.address)
    onTestFinished(() => network.close())
    network.freeze()
    const publisher = broker.publisher({ url: broker.urlAt(network.address), connectTimeoutMs: 5000 })
    const stop = new AbortController()
    const checking = failure(check(publisher, stop.signal))
    stop.abort(new Error('enough'))
    expect((await checking).message).toBe('enough')
  })
})
