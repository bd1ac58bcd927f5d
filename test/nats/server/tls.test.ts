import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { failure, outboxMessage, publish, summary } from '../../support/subjects/publishing.ts'
import { useNatsProgram, withJetstream } from './nats-program.ts'

// Self-signed, for 127.0.0.1 and localhost, until 2126; only for this test.
const cert = `-----BEGIN CERTIFICATE-----
MIIBnDCCAUOgAwIBAgIUYFj+NiRJNPn6Ke0KURcroVRh7qswCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKdHhib3ggdGVzdDAgFw0yNjExMjExMDMyMzVaGA8yMTI2MTAy
ODEwMzIzNVowFTETMBEGA1UEAwwKdHhib3ggdGVzdDBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABBgbnX6zlaTZkHAd3QIw5rb5nz+MhNZRNXmiqkXjlIRgRVMcZbs9
6psFXNgPpFiJoJH0RlX8NVLKT8nj3EPi0HCjbzBtMB0GA1UdDgQWBBRmHPsJM6To
IFbXq5cLqtvWFvfWXDAfBgNVHSMEGDAWgBRmHPsJM6ToIFbXq5cLqtvWFvfWXDAP
BgNVHRMBAf8EBTADAQH/MBoGA1UdEQQTMBGHBH8AAAGCCWxvY2FsaG9zdDAKBggq
hkjOPQQDAgNHADBEAiA9QGuslBXjRCCPimr0ISjO7VrXId18PQcVo4ab71naIwIg
buVc21f45ATK8KagiX4mqUT6CTeHhZJksrEHWLb6PkY=
-----END CERTIFICATE-----
`
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgwkKGM6rcjkW7G0VZ
kZrv1GTYyUOaoRapEHXW+DjTii+hRANCAAQYG51+s5Wk2ZBwHd0CMOa2+Z8/jITW
UTV5oqpF45SEYEVTHGW7PeqbBVzYD6RYiaCR9EZV/DVSyk/J49xD4tBw
-----END PRIVATE KEY-----
`

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
