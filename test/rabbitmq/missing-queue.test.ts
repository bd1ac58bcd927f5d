import { expect, test } from 'vitest'
import { BrokerUnavailableError, rabbitmqSource } from '@txbox/rabbitmq'
import { failure, useBroker } from './broker-under-test.ts'

const broker = useBroker()

test('a queue that does not exist is named, with the advice to create it, and no connection stays open', async () => {
  const proxy = await broker.frameProxy()
  const queue = `missing-${crypto.randomUUID()}`
  const source = rabbitmqSource({ url: broker.urlAt(proxy.address), queue, keepsRejected: true })
  const error = await failure(source.open({ prefetch: 1, failed: () => undefined }))
  expect(error).toBeInstanceOf(BrokerUnavailableError)
  expect(error.message).toMatch(
    new RegExp(
      `does not let this consumer use the queue '${queue}' .*404.*NOT_FOUND.* Create the queue, or let the option 'declare'`,
    ),
  )
  await expect.poll(() => proxy.open).toBe(0)
})
