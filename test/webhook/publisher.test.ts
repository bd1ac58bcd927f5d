import type http from 'node:http'
import net from 'node:net'
import { Webhook } from 'standardwebhooks'
import { describe, expect, onTestFinished, test } from 'vitest'
import {
  BrokerUnavailableError,
  webhookPublisher,
  webhookRetries,
  type WebhookPublisherOptions,
} from '@txbox/webhook'
import { SECRETS } from '../support/subjects/signed-webhooks.ts'
import { failure, outboxMessage, publish, reason, summary } from '../support/subjects/publishing.ts'
import { until } from '../support/worlds/until.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'

const OTHER_SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'
const TIMEOUT_MS = 500

function publisherOf(options: WebhookPublisherOptions = {}) {
  const publisher = webhookPublisher({ allow: () => true, timeoutMs: TIMEOUT_MS, ...options })
  onTestFinished(() => publisher.close?.())
  return publisher
}

/** An address at which nothing listens. */
async function nowhere(): Promise<string> {
  const server = net.createServer()
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as net.AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}/`
}

describe('the signature', () => {
  test('W8 each attempt is signed at its own time, with each secret, as the published library verifies', async () => {
    const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
    const publisher = publisherOf({ secret: [OTHER_SECRET, SECRETS.standard] })
    const message = outboxMessage({ topic: endpoint.url(), payload: Buffer.from('{"name":"Zoë"}') })
    await publish(publisher, [message])
    const { headers, payload } = endpoint.arrived()[0]!
    for (const secret of [OTHER_SECRET, SECRETS.standard]) {
      expect(new Webhook(secret).verify(payload, headers as Record<string, string>)).toEqual({ name: 'Zoë' })
    }
    const seconds = Number(headers['webhook-timestamp'])
    expect(Math.abs(seconds - Date.now() / 1000)).toBeLessThan(5)
    const signature = new Webhook(OTHER_SECRET).sign(message.id, new Date(seconds * 1000), payload)
    expect(headers['webhook-signature']).toBe(
      `${signature} ${new Webhook(SECRETS.standard).sign(message.id, new Date(seconds * 1000), payload)}`,
    )
  })

  test('W8 a message without a secret is not sent unsigned if a function returns none', async () => {
    const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
    for (const secret of [() => undefined, () => '', () => [], () => 'hidden-word'] as never[]) {
      const [result] = await publish(publisherOf({ secret }), [outboxMessage({ topic: endpoint.url() })])
      expect(summary([result!])).toEqual(['rejected for now'])
      expect(reason(result)).not.toContain('hidden-word')
    }
    expect(endpoint.all).toEqual([])
    await publish(publisherOf(), [outboxMessage({ topic: endpoint.url() })])
    expect(endpoint.all[0]?.headers).not.toHaveProperty('webhook-signature')
  })
})

describe('answers', () => {
  const FOR_NOW = [
    300, 301, 302, 307, 308, 304, 401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504, 507, 599,
  ]
  const FOR_GOOD = [400, 402, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 418, 422, 423, 451, 499]
  const verdictOf = async (status: number, headers: http.OutgoingHttpHeaders = {}, options = {}) => {
    const endpoint = await WebhookEndpoint.start((_, response) => {
      response.writeHead(status, headers).end(status === 304 ? undefined : 'because')
    })
    const [result] = await publish(publisherOf(options), [
      outboxMessage({ topic: endpoint.url('/secret-path?token=t') }),
    ])
    return { result: result!, endpoint }
  }

  test.for([200, 201, 202, 204, 299])('W8 %i is accepted', async (status) => {
    expect((await verdictOf(status)).result).toEqual({ status: 'accepted' })
  })
  test.for(FOR_NOW)('W8 %i can be tried again', async (status) => {
    const { result } = await verdictOf(status)
    expect(summary([result])).toEqual(['rejected for now'])
    expect(result.status === 'rejected' && result.counted).toBe(status === 429 ? false : undefined)
    expect(reason(result)).toContain(`answered ${status}`)
  })
  test.for(FOR_GOOD)('W8 %i is final', async (status) => {
    const { result } = await verdictOf(status)
    expect(summary([result])).toEqual(['rejected for good'])
    expect(reason(result)).toContain(`answered ${status}: because`)
  })

  test('W8 a redirect is not followed', async () => {
    const other = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
    for (const options of [{}, { fetch }]) {
      expect(summary([(await verdictOf(302, { location: other.url() }, options)).result])).toEqual([
        'rejected for now',
      ])
    }
    expect(other.all).toEqual([])
  })

  test.for<[number, string, number | undefined]>([
    [429, '7', 7000],
    [503, '0', undefined],
    [408, ' 60 ', 60_000],
    [425, '999999999', 86_400_000],
    [500, 'Fri, 01 Jan 2100 00:00:00 GMT', 86_400_000],
    [500, 'Fri, 01 Jan 1999 00:00:00 GMT', undefined],
    [503, 'soon', undefined],
    [503, '-5', undefined],
    [404, '7', undefined],
    [301, '7', undefined],
  ])('W8 %i with Retry-After %j waits %j ms', async ([status, retryAfter, ms]) => {
    const { result } = await verdictOf(status, { 'retry-after': retryAfter })
    expect(result.status === 'rejected' && result.retryAfterMs).toBe(ms)
  })

  test('N2 the path and query of the URL, and secrets that the endpoint quotes, are not shown', async () => {
    const endpoint = await WebhookEndpoint.start(({ headers }, response) => {
      response.writeHead(400).end(`bad request: ${JSON.stringify(headers)}\n\u001b[2J`)
    })
    const publisher = publisherOf({ headers: { authorization: 'Bearer hidden-word' } })
    const [result] = await publish(publisher, [
      outboxMessage({ topic: endpoint.url('/hidden-path?token=hidden') }),
    ])
    expect(reason(result)).toContain('bad request')
    expect(reason(result)).not.toMatch(/hidden/)
    expect(reason(result)).not.toContain('\u001b')
  })

  test.for([true, false])('W8 an endless answer holds up nothing, accepted: %j', async (isAccepted) => {
    let closed = 0
    const endpoint = await WebhookEndpoint.start((_, response) => {
      response.writeHead(isAccepted ? 200 : 500)
      const chunk = Buffer.alloc(1024, 'x')
      const timer = setInterval(() => response.write(chunk), 1)
      response.on('close', () => {
        clearInterval(timer)
        closed += 1
      })
    })
    for (const options of [{}, { fetch }]) {
      const [result] = await publish(publisherOf(options), [outboxMessage({ topic: endpoint.url() })])
      expect(summary([result!])).toEqual([isAccepted ? 'accepted' : 'rejected for now'])
    }
    await until(
      async () => closed === 2,
      () => `${closed} of 2 connections were closed`,
      3000,
    )
  })
})

test('W8 user and password of the URL become a header, and no message may replace the header', async () => {
  const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
  const topic = endpoint.url().replace('http://', 'http://us%3Aer:p%C3%A4ss@')
  const own = outboxMessage({ topic, headers: { Authorization: 'mine' } })
  expect(summary(await publish(publisherOf(), [outboxMessage({ topic }), own]))).toEqual([
    'accepted',
    'rejected for good',
  ])
  expect(endpoint.all.map(({ headers }) => headers.authorization)).toEqual([
    `Basic ${Buffer.from('us:er:päss').toString('base64')}`,
  ])
})

describe('each topic is a URL', () => {
  test('W9 a network error counts; after five in a row the host waits, without counting, and others go on', async () => {
    const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
    const topic = await nowhere()
    const publisher = publisherOf()
    const one = async () => (await publish(publisher, [outboxMessage({ topic })]))[0]!
    for (let n = 0; n < 5; n += 1) {
      const result = await one()
      expect(result).toMatchObject({ status: 'rejected', retryable: true })
      expect(result).not.toHaveProperty('counted')
      expect(reason(result)).toMatch(/ECONNREFUSED/)
    }
    expect(await one()).toMatchObject({ status: 'rejected', retryable: true, counted: false })
    expect(summary(await publish(publisher, [outboxMessage({ topic: endpoint.url() })]))).toEqual([
      'accepted',
    ])
  })

  test('W9 an endpoint that answers nothing is a rejection after the time limit', async () => {
    const endpoint = await WebhookEndpoint.start(() => undefined)
    for (const options of [{}, { fetch }]) {
      const [result] = await publish(publisherOf(options), [outboxMessage({ topic: endpoint.url() })])
      expect(reason(result)).toContain(`no answer within ${TIMEOUT_MS} ms`)
    }
  })

  test('W9 at most perHostConcurrency requests to a host, and concurrency in all, are in flight', async () => {
    let inFlight = 0
    let most = 0
    const slow = async () =>
      await WebhookEndpoint.start((_, response) => {
        inFlight += 1
        most = Math.max(most, inFlight)
        setTimeout(() => {
          inFlight -= 1
          response.writeHead(204).end()
        }, 10)
      })
    const endpoints = [await slow(), await slow(), await slow()]
    const messages = Array.from({ length: 60 }, (_, n) => outboxMessage({ topic: endpoints[n % 3]!.url() }))
    await publish(publisherOf({ perHostConcurrency: 2 }), messages)
    expect(most).toBe(6)
    most = 0
    await publish(publisherOf({ concurrency: 4, perHostConcurrency: 3 }), messages)
    expect(most).toBe(4)
  })
})

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
      const error = await failure(publish(publisherOf({ url: endpoint.url() }), two))
      expect(error).toBeInstanceOf(BrokerUnavailableError)
    },
  )

  test.for([502, 503, 504, undefined])(
    'W9 %j for one message, and for the probe, is an outage',
    async (head) => {
      const endpoint = await away(503, head)
      const error = await failure(publish(publisherOf({ url: endpoint.url() }), two.slice(1)))
      expect(error).toBeInstanceOf(BrokerUnavailableError)
      const probe = endpoint.all.find(({ method }) => method === 'HEAD')
      expect(Object.keys(probe?.headers ?? {}).filter((name) => name.startsWith('webhook'))).toEqual([])
    },
  )

  test.for([503, undefined])('W9 a message that alone gets %j is rejected, and counts', async (status) => {
    const endpoint = await away(status, 405)
    const publisher = publisherOf({ url: endpoint.url() })
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
    const publisher = publisherOf({ url: endpoint.url() })
    const call = (id: string) => publish(publisher, [outboxMessage({ topic: 't', id })])
    expect(summary(await call('bad-1'))).toEqual(['rejected for now'])
    expect(summary(await call('good-1'))).toEqual(['accepted'])
    expect(summary(await call('bad-2'))).toEqual(['rejected for now'])
    expect(await failure(call('bad-3'))).toBeInstanceOf(BrokerUnavailableError)
  })

  test('N1 check asks the endpoint, publishes nothing, and says what is wrong', async () => {
    const signal = new AbortController().signal
    const endpoint = await away(204, 405)
    await publisherOf({ url: endpoint.url() }).check!({ signal })
    expect(endpoint.all.map(({ method }) => method)).toEqual(['HEAD'])
    const gone = publisherOf({ url: (await nowhere()).replace('http://', 'http://user:hidden-word@') })
    const error = await failure(gone.check!({ signal }))
    expect(error).toBeInstanceOf(BrokerUnavailableError)
    expect(error.message).toMatch(/cannot be reached: .*ECONNREFUSED/)
    expect(error.message).not.toContain('hidden')
    expect((await failure(webhookPublisher({ url: endpoint.url() }).check!({ signal }))).message).toContain(
      "'allow'",
    )
    await publisherOf().check!({ signal })
  })
})

test('W8 the retries are those that Standard Webhooks recommends', () => {
  const policy = webhookRetries()
  const { attempts } = policy
  const pauses = Array.from({ length: attempts - 1 }, (_, n) => policy.delayMs(n + 1, Math.random))
  expect(attempts).toBe(10)
  const minutes = [5, 30, 120, 300, 600, 840, 1200, 1440]
  expect(pauses).toEqual([5000, ...minutes.map((each) => each * 60_000)])
})
