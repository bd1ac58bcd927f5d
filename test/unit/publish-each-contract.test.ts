import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import { onTestFinished } from 'vitest'
import { publishEach } from '@txbox/relay'
import { publisherContract, type ArrivedMessage } from '@txbox/testing'
import { testContract } from '../support/subjects/contract-tests.ts'

// An HTTP endpoint, whose path determines whether it accepts the message.
const cases = publisherContract({ ordering: 'none' }, async () => {
  const got: ArrivedMessage[] = []
  const server = http.createServer((request, response) => {
    void buffer(request).then((payload) => {
      const taken = request.url === '/good'
      if (taken) got.push({ id: String(request.headers['idempotency-key']), payload })
      response.writeHead(taken ? 204 : 503).end()
    })
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    publisher: publishEach(async ({ id, topic, payload }) => {
      const answer = await fetch(`http://127.0.0.1:${port}/${topic}`, {
        method: 'POST',
        headers: { 'idempotency-key': id },
        body: Buffer.from(payload),
      })
      if (!answer.ok) throw new Error(`Message ${id}: the endpoint answered ${answer.status}.`)
    }),
    goodTopic: 'good',
    badTopic: 'bad',
    arrived: async () => got.splice(0),
  }
})

// The function has neither fields, nor a broker, nor anything to close.
const shown = cases.filter(({ rule }) => /^P|^O[12]|^V[15]|^S[125]/.test(rule))
testContract(shown)
