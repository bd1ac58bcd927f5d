import { HTTP, type CloudEventV1 } from 'cloudevents'
import { describe, expect, test } from 'vitest'
import { cloudEvents } from '@txbox/cloudevents'
import { publisherContract } from '@txbox/testing'
import { verifyWebhook, webhookPublisher } from '@txbox/webhook'
import { testContract } from '../support/subjects/contract-tests.ts'
import { outboxMessage, publish, summary } from '../support/subjects/publishing.ts'
import { SECRETS } from '../support/subjects/signed-webhooks.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'

const publisher = () => webhookPublisher({ secret: SECRETS.standard, allow: () => true })

test.for(['binary', 'structured'] as const)(
  'an event in %s mode is signed as it is sent, and the official SDK reads it',
  async (mode) => {
    const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
    const events = cloudEvents({ source: '/orders', publisher: publisher(), mode, subject: () => 'x' })
    const message = outboxMessage({
      topic: endpoint.url('/good'),
      id: 'order-1',
      type: 'order paid',
      key: 'k',
    })
    expect(summary(await publish(events, [message]))).toEqual(['accepted'])
    const [{ headers, payload }] = endpoint.arrived() as [ReturnType<typeof endpoint.arrived>[number]]
    expect(() =>
      verifyWebhook({ headers, body: payload }, { scheme: 'standard', secret: SECRETS.standard }),
    ).not.toThrow()
    const decoded = { ...headers, 'ce-type': decodeURIComponent(String(headers['ce-type'])) }
    if (mode === 'structured') delete (decoded as Partial<typeof decoded>)['ce-type']
    const event = HTTP.toEvent({ headers: decoded, body: payload.toString() }) as CloudEventV1<unknown>
    expect(JSON.parse(JSON.stringify(event))).toEqual({
      ...{ specversion: '1.0', id: 'order-1', source: '/orders', type: 'order paid', subject: 'x' },
      ...{ time: '2026-03-04T05:06:07.890Z', datacontenttype: 'application/json', partitionkey: 'k' },
      data: { n: 1 },
    })
  },
)

describe('the contract of publishers, of webhooks in binary mode', () => {
  const cases = publisherContract({ ordering: 'per-key', lowerCaseHeaders: true }, async () => {
    const endpoint = await WebhookEndpoint.start(
      ({ path }, response) => void response.writeHead(path === '/missing' ? 404 : 204).end(),
    )
    return {
      publisher: cloudEvents({ source: '/orders', publisher: publisher() }),
      goodTopic: endpoint.url('/good'),
      badTopic: endpoint.url('/missing'),
      poison: {
        'an id that is no attribute': { id: 'a\nb' },
        'a header of an attribute': { headers: { 'CE-Id': 'mine' } },
        'a header of HTTP': { headers: { 'Transfer-Encoding': 'chunked' } },
      },
      arrived: async () => endpoint.arrived(),
    }
  })
  const rules = new Set(cases.map(({ rule }) => rule).filter((rule) => /^[AF]|^(O3|S5|V2|V4)$/.test(rule)))
  testContract(cases, {
    without: Object.fromEntries([...rules].map((rule) => [rule, 'shown with the publisher alone'])),
  })
})
