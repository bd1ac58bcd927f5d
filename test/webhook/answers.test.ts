import type http from 'node:http'
import { describe, expect, test } from 'vitest'
import { outboxMessage, publish, reason, summary } from '../support/subjects/publishing.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'
import { webhookPublisherOf } from '../support/subjects/webhook-publishers.ts'
import { until } from '../support/worlds/until.ts'

describe('answers', () => {
  const FOR_NOW = [
    300, 301, 302, 307, 308, 304, 401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504, 507, 599,
  ]
  const FOR_GOOD = [400, 402, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 418, 422, 423, 451, 499]
  const verdictOf = async (status: number, headers: http.OutgoingHttpHeaders = {}, options = {}) => {
    const endpoint = await WebhookEndpoint.start((_, response) => {
      response.writeHead(status, headers).end(status === 304 ? undefined : 'because')
    })
    const [result] = await publish(webhookPublisherOf(options), [
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
    const endpoint = await WebhookEndpoint.start(({ headers, path }, response) => {
      const { authorization = '' } = headers
      const pair = Buffer.from(authorization.replace('Basic ', ''), 'base64').toString()
      const body = [
        'bad request',
        path,
        decodeURIComponent(path),
        JSON.stringify(headers),
        pair,
        pair.slice(6),
      ]
      response.writeHead(400).end(`${body.join('\n')}\n\u001b[2J`)
    })
    const topic = endpoint.url('/hooks/hidden%2Dpath/hid/den1?token=hidden%20token&hidden-name')
    const publisher = webhookPublisherOf({ headers: { authorization: 'Bearer hidden-word' } })
    const withPassword = topic.replace('http://', 'http://us%C3%A4r:hidden%2Fpass@')
    const results = [
      ...(await publish(publisher, [outboxMessage({ topic })])),
      ...(await publish(webhookPublisherOf(), [outboxMessage({ topic: withPassword })])),
    ]
    for (const result of results) {
      expect(reason(result)).toContain('bad request')
      expect(reason(result)).not.toMatch(/hidden|hid.den|den1|usär/)
      expect(reason(result)).not.toContain('\u001b')
    }
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
      const [result] = await publish(webhookPublisherOf(options), [outboxMessage({ topic: endpoint.url() })])
      expect(summary([result!])).toEqual([isAccepted ? 'accepted' : 'rejected for now'])
    }
    await until(
      async () => closed === 2,
      () => `${closed} of 2 connections were closed`,
      3000,
    )
  })

  test('W8 a refusal whose body never ends keeps its status and the beginning of its text', async () => {
    const endpoint = await WebhookEndpoint.start((_, response) => {
      response.writeHead(410, { 'content-length': '100' }).write('gone for g')
    })
    for (const options of [{}, { fetch }]) {
      const [result] = await publish(webhookPublisherOf(options), [outboxMessage({ topic: endpoint.url() })])
      expect(summary([result!])).toEqual(['rejected for good'])
      expect(reason(result)).toContain('answered 410: gone for g')
    }
  })

  test('W8 at most 64 answers to accepted messages are read beside the requests in flight', async () => {
    let open = 0
    const endpoint = await WebhookEndpoint.start((_, response) => {
      open += 1
      response.on('close', () => (open -= 1))
      response.writeHead(200, { 'content-length': '100' }).write('accepted, and')
    })
    const messages = Array.from({ length: 100 }, () => outboxMessage({ topic: endpoint.url() }))
    const results = await publish(webhookPublisherOf({ timeoutMs: 30_000 }), messages)
    expect(results.map(reason).filter((text) => text !== '')).toEqual([])
    expect(new Set(summary(results))).toEqual(new Set(['accepted']))
    await until(
      async () => open === 64,
      () => `${open} answers are open`,
      2000,
    )
  })
})
