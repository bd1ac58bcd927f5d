import { expect, test } from 'vitest'
import { BrokerUnavailableError } from '@txbox/rabbitmq'
import { failure, outboxMessages, publish, summary, useBroker } from './broker-under-test.ts'

const broker = useBroker()

test('a missing exchange is created: durable, of type topic', async () => {
  const exchange = broker.exchangeName()
  const publisher = broker.publisher({ exchange })
  expect(summary(await publish(publisher, outboxMessages('orders.paid', 1)))).toEqual(['rejected for now'])
  // A declaration with other properties would be refused.
  await broker.channel.assertExchange(exchange, 'topic', { durable: true })
  const queue = await broker.queue()
  await broker.channel.bindQueue(queue, exchange, 'orders.*')
  expect(summary(await publish(publisher, outboxMessages('orders.paid', 1)))).toEqual(['accepted'])
})

for (const exchangeType of ['direct', 'fanout', 'headers'] as const) {
  test(`an exchange of type ${exchangeType}`, async () => {
    const exchange = broker.exchangeName()
    const publisher = broker.publisher({ exchange, exchangeType })
    await publish(publisher, outboxMessages('a', 1))
    await broker.channel.assertExchange(exchange, exchangeType, { durable: true })
    const queue = await broker.queue()
    await broker.channel.bindQueue(queue, exchange, 'a')
    expect(summary(await publish(publisher, outboxMessages('a', 1)))).toEqual(['accepted'])
  })
}

test('O6 without the exchange and the permission to create it, publish throws with the reason; with the exchange, publish works', async () => {
  const exchange = broker.exchangeName()
  const publisher = broker.publisher({ exchange, assertExchange: false })
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const error = await failure(publish(publisher, outboxMessages('a', 3)))
    expect(error).toBeInstanceOf(BrokerUnavailableError)
    expect(error.message).toContain(`no exchange '${exchange}'`)
    expect(error.message).toContain(`Create the exchange '${exchange}', or let 'assertExchange' do it.`)
  }
  const queue = await broker.queue()
  await broker.channel.assertExchange(exchange, 'topic')
  await broker.channel.bindQueue(queue, exchange, 'a')
  expect(summary(await publish(publisher, outboxMessages('a', 1)))).toEqual(['accepted'])
})

test('O6 an exchange of another type: publish throws, and names the type and the option to set', async () => {
  const exchange = await broker.exchange('direct')
  const proxy = await broker.frameProxy()
  const asserting = broker.publisher({ url: broker.urlAt(proxy.address), exchange })
  const error = await failure(publish(asserting, outboxMessages('a', 1)))
  expect(error).toBeInstanceOf(BrokerUnavailableError)
  await expect.poll(() => proxy.open).toBe(0)
  expect(error.message).toContain(
    `does not have the exchange '${exchange}' as a durable exchange of type 'topic'`,
  )
  expect(error.message).toContain("received 'topic' but current is 'direct'")
  expect(error.message).toContain("Set 'exchangeType'")
  const taking = broker.publisher({ exchange, assertExchange: false })
  expect(summary(await publish(taking, outboxMessages('a', 1)))).toEqual(['rejected for now'])
})

test('O6 an exchange that is deleted while connected: publish throws, and the next call creates the exchange again', async () => {
  const exchange = broker.exchangeName()
  const publisher = broker.publisher({ exchange })
  await publish(publisher, outboxMessages('a', 1))
  await broker.channel.deleteExchange(exchange)
  const error = await failure(publish(publisher, outboxMessages('a', 100)))
  expect(error.message).toContain(`no exchange '${exchange}'`)
  expect(summary(await publish(publisher, outboxMessages('a', 1)))).toEqual(['rejected for now'])
  await broker.channel.checkExchange(exchange)
})
