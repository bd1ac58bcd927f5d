import { spawn } from 'node:child_process'
import net from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { BrokerUnavailableError } from '@txbox/rabbitmq'
import { until } from '../support/worlds/until.ts'
import { failure, outboxMessage, outboxMessages, publish, summary, useBroker } from './broker-under-test.ts'
import type { FrameProxy } from './frame-proxy.ts'

const broker = useBroker()

/** Accepts connections and sends nothing. */
async function silentServer(): Promise<{ url: string; sockets: Set<net.Socket> }> {
  const sockets = new Set<net.Socket>()
  const server = net.createServer((socket) => {
    sockets.add(socket.resume())
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { url: `amqp://127.0.0.1:${(server.address() as net.AddressInfo).port}`, sockets }
}

async function gone(proxy: FrameProxy): Promise<void> {
  await until(
    async () => proxy.open === 0,
    () => `no connection; there are ${proxy.open}`,
  )
}

describe('aborting', () => {
  const stop = new Error('stop now')

  test('before the call begins: the reason is thrown, and nothing is sent', async () => {
    const proxy = await broker.frameProxy()
    const publisher = broker.publisher({ url: broker.urlAt(proxy.address) })
    expect(await failure(publish(publisher, outboxMessages('a', 1), AbortSignal.abort(stop)))).toBe(stop)
    expect(await failure(publish(publisher, [], AbortSignal.abort(stop)))).toBe(stop)
    await publisher.close?.()
    expect(proxy.connections).toBe(0)
  })

  test('while it connects', async () => {
    const { url } = await silentServer()
    const abort = new AbortController()
    const call = failure(publish(broker.publisher({ url }), outboxMessages('a', 1), abort.signal))
    abort.abort(stop)
    expect(await call).toBe(stop)
  })

  test('while it connects: another call that waits for the same connection continues', async () => {
    const queue = await broker.queue()
    const publisher = broker.publisher({ exchange: '' })
    const abort = new AbortController()
    const aborted = failure(publish(publisher, outboxMessages(queue, 1), abort.signal))
    const other = publish(publisher, outboxMessages(queue, 1))
    abort.abort(stop)
    expect(await aborted).toBe(stop)
    expect(summary(await other)).toEqual(['accepted'])
  })

  test('while confirms are outstanding: the connection is dropped, other calls reject, and the next call works', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    await publish(publisher, outboxMessages(queue, 1))
    proxy.hold()
    const abort = new AbortController()
    const aborted = failure(publish(publisher, outboxMessages(queue, 10), abort.signal))
    const other = failure(publish(publisher, outboxMessages(queue, 10)))
    setTimeout(() => abort.abort(stop), 20)
    expect(await aborted).toBe(stop)
    expect(await other).toBeInstanceOf(BrokerUnavailableError)
    expect((await other).message).toContain('because another call on it was aborted')
    await gone(proxy)
    proxy.release()
    expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  })

  test('in the same turn as it is called', async () => {
    const queue = await broker.queue()
    const publisher = broker.publisher({ exchange: '' })
    await publish(publisher, outboxMessages(queue, 1))
    const abort = new AbortController()
    const aborted = failure(publish(publisher, outboxMessages(queue, 10), abort.signal))
    abort.abort(stop)
    expect(await aborted).toBe(stop)
    expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
    expect((await broker.ids(queue)).length).toBe(2)
  })

  test('O7 messages that are still buffered in the process are not sent afterwards', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    await publish(publisher, outboxMessages(queue, 1))
    proxy.freeze()
    const abort = new AbortController()
    const messages = Array.from({ length: 100 }, () =>
      outboxMessage({
        topic: queue,
        payload: Buffer.alloc(1_000_000),
        contentType: 'application/octet-stream',
      }),
    )
    const aborted = failure(publish(publisher, messages, abort.signal))
    setTimeout(() => abort.abort(stop), 50)
    expect(await aborted).toBe(stop)
    proxy.thaw()
    await gone(proxy)
    // Bytes that had left the process are in the buffers of the operating system.
    expect((await broker.ids(queue)).length).toBeLessThan(15)
  })
})

describe('closing', () => {
  test('published messages have arrived, the connection is closed, and a second close does nothing', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    await publish(publisher, outboxMessages(queue, 3))
    await Promise.all([publisher.close?.(), publisher.close?.()])
    await publisher.close?.()
    await gone(proxy)
    expect(proxy.goodbyes).toBe(1)
    expect((await broker.ids(queue)).length).toBe(3)
    const error = await failure(publish(publisher, outboxMessages(queue, 1)))
    expect(error.message).toMatch(/The publisher for RabbitMQ at .* is closed/)
    expect(proxy.connections).toBe(1)
  })

  test('before its first use', async () => {
    const publisher = broker.publisher()
    await publisher.close?.()
    expect((await failure(publish(publisher, outboxMessages('a', 1)))).message).toContain('is closed')
  })

  test('while it connects: the attempt ends at once', async () => {
    const { url, sockets } = await silentServer()
    const publisher = broker.publisher({ url })
    const call = failure(publish(publisher, outboxMessages('a', 1)))
    await until(
      async () => sockets.size === 1,
      () => 'a connection',
    )
    const startedAt = performance.now()
    await publisher.close?.()
    expect((await call).message).toContain('is closed')
    expect(performance.now() - startedAt).toBeLessThan(1000)
    await until(
      async () => sockets.size === 0,
      () => 'the socket is closed',
    )
  })

  test('at any moment of connecting', async () => {
    const proxy = await broker.frameProxy()
    for (let ms = 0; ms < 24; ms += 1) {
      const publisher = broker.publisher({ url: broker.urlAt(proxy.address), exchange: 'amq.topic' })
      const call = publish(publisher, outboxMessages('nowhere', 1)).then(
        (results) => summary(results)[0],
        (error: unknown) => String(error),
      )
      await new Promise((resolve) => setTimeout(resolve, ms))
      await publisher.close?.()
      expect(await call).toMatch(/is closed|rejected for now/)
    }
    await gone(proxy)
  })

  test('while confirms are outstanding: waiting calls reject', async () => {
    const proxy = await broker.frameProxy()
    const queue = await broker.queue()
    const publisher = broker.publisherAt(proxy)
    await publish(publisher, outboxMessages(queue, 1))
    proxy.hold()
    const call = failure(publish(publisher, outboxMessages(queue, 10)))
    await new Promise((resolve) => setTimeout(resolve, 20))
    const closed = publisher.close?.()
    expect((await call).message).toContain('is closed')
    proxy.release()
    await closed
    await gone(proxy)
    expect(proxy.goodbyes).toBe(1)
  })

  test('when the broker does not answer the close', async () => {
    const proxy = await broker.frameProxy()
    const publisher = broker.publisherAt(proxy)
    await publish(publisher, outboxMessages(broker.name('nowhere'), 1))
    proxy.hold()
    const startedAt = performance.now()
    await publisher.close?.()
    expect(performance.now() - startedAt).toBeLessThan(4000)
    await gone(proxy)
  })

  test('nothing keeps the process alive afterwards', async () => {
    const program = `
      import { rabbitmqPublisher } from '@txbox/rabbitmq'
      const message = {
        id: '1', topic: 'nowhere', payload: Buffer.from('{}'), contentType: 'application/json', headers: {},
        createdAt: new Date(), attempt: 1,
      }
      for (const url of [${JSON.stringify(broker.url)}, 'amqp://127.0.0.1:1']) {
        const publisher = rabbitmqPublisher({ url, exchange: '' })
        const { signal } = new AbortController()
        await publisher.publish([message], { signal }).catch(() => undefined)
        await publisher.close()
      }
      console.log('closed')`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
      stdio: ['ignore', 'pipe', 'inherit'],
      timeout: 20_000,
    })
    let output = ''
    child.stdout.on('data', (bytes: Buffer) => (output += bytes.toString()))
    // If something keeps the process alive, the test times out.
    const code = await new Promise((resolve) => void child.on('exit', resolve))
    expect({ code, output: output.trim() }).toEqual({ code: 0, output: 'closed' })
  })
})
