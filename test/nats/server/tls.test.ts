import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { failure, outboxMessage, publish, summary } from '../../support/subjects/publishing.ts'
import { useNatsProgram, withJetstream } from './nats-program.ts'
import { cert, key } from '../../support/worlds/test-certificate.ts'

const server = useNatsProgram(
  (folder) => {
    writeFileSync(path.join(folder, 'cert.pem'), cert)
    writeFileSync(path.join(folder, 'key.pem'), key)
    return `${withJetstream(folder)}\ntls { cert_file: "${folder}/cert.pem", key_file: "${folder}/key.pem" }`
  },
  { tls: { ca: cert } },
)

test('tls, with a certificate of a private authority, by address and by name', async () => {
  const stream = await server.nats.stream()
  for (const host of ['127.0.0.1', 'localhost']) {
    const publisher = server.nats.publisher({ servers: `tls://${host}:${server.port}`, tls: { ca: cert } })
    const messages = [outboxMessage({ topic: `${stream}.a` }), outboxMessage({ topic: `${stream}.a` })]
    expect(summary(await publish(publisher, messages))).toEqual(['accepted', 'accepted'])
  }
})

test('a certificate that nobody vouches for, or of another name, is an outage', async () => {
  const cases = [
    [{ servers: `tls://127.0.0.1:${server.port}` }, /self.signed certificate/],
    [{ servers: `nats://127.0.0.1:${server.port}` }, /self.signed certificate/],
    [{ servers: `tls://127.0.0.1:${server.port}`, tls: { ca: cert, servername: 'other' } }, /altnames/],
    [{ servers: `tls://127.0.0.1:${server.port}`, tls: { ca: 'no certificate' } }, /Cannot connect to NATS/],
  ] as const
  for (const [options, expected] of cases) {
    const publisher = server.nats.publisher({ ...options, connectTimeoutMs: 3000 })
    const error = await failure(publish(publisher, [outboxMessage({ topic: 'orders' })]))
    expect(error).toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
    expect(error.message).toMatch(expected)
  }
})
