import net from 'node:net'
import tls from 'node:tls'
import { expect, onTestFinished, test } from 'vitest'
import { failure, outboxMessages, publish, summary, useBroker } from './broker-under-test.ts'
import { cert, key } from '../support/worlds/test-certificate.ts'

const broker = useBroker()

/** TLS in front of the broker, as in a load balancer. @returns the port */
async function tlsBeforeBroker(options: tls.TlsOptions = {}): Promise<number> {
  const server = tls.createServer({ cert, key, ...options }, (client) => {
    const plain = net.connect(broker.address)
    for (const socket of [client, plain]) {
      socket.on('error', () => undefined)
      socket.on('close', () => {
        client.destroy()
        plain.destroy()
      })
    }
    client.pipe(plain).pipe(client)
  })
  server.on('tlsClientError', () => undefined)
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return (server.address() as net.AddressInfo).port
}

function urlAt(port: number): string {
  return broker.urlAt({ host: '127.0.0.1', port }).replace('amqp:', 'amqps:')
}

test('amqps, with a certificate of a private authority', async () => {
  const queue = await broker.queue()
  const port = await tlsBeforeBroker()
  const publisher = broker.publisher({ url: urlAt(port), exchange: '', tls: { ca: cert } })
  expect(summary(await publish(publisher, outboxMessages(queue, 2)))).toEqual(['accepted', 'accepted'])
})

test('amqps, with a broker that requires a certificate', async () => {
  const queue = await broker.queue()
  const port = await tlsBeforeBroker({ requestCert: true, ca: cert })
  const publisher = broker.publisher({ url: urlAt(port), exchange: '', tls: { ca: [cert], cert, key } })
  expect(summary(await publish(publisher, outboxMessages(queue, 1)))).toEqual(['accepted'])
  const without = broker.publisher({ url: urlAt(port), exchange: '', tls: { ca: cert } })
  expect((await failure(publish(without, outboxMessages(queue, 1)))).message).toMatch(/^Cannot connect/)
})

test('amqps, with an untrusted certificate: publish throws with the reason', async () => {
  const publisher = broker.publisher({ url: urlAt(await tlsBeforeBroker()), exchange: '' })
  const error = await failure(publish(publisher, outboxMessages('a', 1)))
  expect(error.message).toMatch(/^Cannot connect to RabbitMQ at 127.* self-signed certificate/)
})
