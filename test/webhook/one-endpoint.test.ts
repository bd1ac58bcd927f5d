import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { BrokerUnavailableError, webhookPublisher } from '@txbox/webhook'
import { failure, outboxMessage, publish, summary } from '../support/subjects/publishing.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'
import { nowhere, webhookPublisherOf } from '../support/subjects/webhook-publishers.ts'

describe('one endpoint', () => {
  const away = (status: number | undefined, head: number | undefined) =>
    WebhookEndpoint.start(({ method }, response) => {
      const answer = method === 'HEAD' ? head : status
      if (answer === undefined) response.destroy()
      else response.writeHead(answer).end()
    })
  const two = [outboxMessage({ topic: 'a' }), outboxMessage({ topic: 'b' })]

  test.for([502, 503, 504, undefined])(
    'W9 %j for two messages is an outage, and nothing is rejected',
    async (status) => {
      const endpoint = await away(status, 204)
      const error = await failure(publish(webhookPublisherOf({ url: endpoint.url() }), two))
      expect(error).toBeInstanceOf(BrokerUnavailableError)
    },
  )

  test.for([502, 503, 504, undefined])(
    'W9 %j for one message, and for the probe, is an outage',
    async (head) => {
      const endpoint = await away(503, head)
      const error = await failure(publish(webhookPublisherOf({ url: endpoint.url() }), two.slice(1)))
      expect(error).toBeInstanceOf(BrokerUnavailableError)
      const probe = endpoint.all.find(({ method }) => method === 'HEAD')
      expect(Object.keys(probe?.headers ?? {}).filter((name) => name.startsWith('webhook'))).toEqual([])
    },
  )

  test.for([503, undefined])('W9 a message that alone gets %j is rejected, and counts', async (status) => {
    const endpoint = await away(status, 405)
    const publisher = webhookPublisherOf({ url: endpoint.url() })
    for (let attempt = 0; attempt < 3; attempt += 1) {
      const [result] = await publish(publisher, two.slice(0, 1))
      expect(summary([result!])).toEqual(['rejected for now'])
      expect(result).not.toHaveProperty('counted')
    }
  })

  test('W9 messages alike within 10 s are an outage over several calls, unless one was accepted in between', async () => {
    const endpoint = await WebhookEndpoint.start(({ method, id }, response) => {
      response.writeHead(method === 'HEAD' || id.startsWith('good') ? 204 : 503).end()
    })
    const publisher = webhookPublisherOf({ url: endpoint.url() })
    const call = (id: string) => publish(publisher, [outboxMessage({ topic: 't', id })])
    expect(summary(await call('bad-1'))).toEqual(['rejected for now'])
    expect(summary(await call('good-1'))).toEqual(['accepted'])
    expect(summary(await call('bad-2'))).toEqual(['rejected for now'])
    expect(await failure(call('bad-3'))).toBeInstanceOf(BrokerUnavailableError)
  })

  test('W9 two messages that always fail alike stop the relay for a minute, and then count once another was accepted', async () => {
    const endpoint = await WebhookEndpoint.start(({ method, id }, response) => {
      response.writeHead(method === 'HEAD' || !id.startsWith('bad') ? 204 : 503).end()
    })
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const publisher = webhookPublisherOf({ url: endpoint.url() })
    const bad = ['bad-1', 'bad-2'].map((id) => outboxMessage({ topic: 't', id }))
    for (let seconds = 0; seconds < 60; seconds += 5) {
      expect(await failure(publish(publisher, bad))).toBeInstanceOf(BrokerUnavailableError)
      vi.advanceTimersByTime(5000)
    }
    for (const result of await publish(publisher, bad)) {
      expect(result).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    }
    expect(summary(await publish(publisher, [outboxMessage({ topic: 't', id: 'good' })]))).toEqual([
      'accepted',
    ])
    for (const result of await publish(publisher, bad)) {
      expect(result).toMatchObject({ status: 'rejected', retryable: true })
      expect(result).not.toHaveProperty('counted')
    }
  })

  test('N1 check asks the endpoint, publishes nothing, and says what is wrong', async () => {
    const signal = new AbortController().signal
    const endpoint = await away(204, 405)
    await webhookPublisherOf({ url: endpoint.url() }).check!({ signal })
    expect(endpoint.all.map(({ method }) => method)).toEqual(['HEAD'])
    const gone = webhookPublisherOf({ url: (await nowhere()).replace('http://', 'http://user:hidden-word@') })
    const error = await failure(gone.check!({ signal }))
    expect(error).toBeInstanceOf(BrokerUnavailableError)
    expect(error.message).toMatch(/cannot be reached: .*ECONNREFUSED/)
    expect(error.message).not.toContain('hidden')
    expect((await failure(webhookPublisher({ url: endpoint.url() }).check!({ signal }))).message).toContain(
      "'allow'",
    )
    await webhookPublisherOf().check!({ signal })
  })
})
