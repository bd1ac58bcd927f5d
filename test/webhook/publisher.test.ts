import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { webhookRetries } from '@txbox/webhook'
import { outboxMessage, publish, reason, summary } from '../support/subjects/publishing.ts'
import { SECRETS } from '../support/subjects/signed-webhooks.ts'
import { WebhookEndpoint } from '../support/subjects/webhook-endpoint.ts'
import { TIMEOUT_MS, nowhere, webhookPublisherOf } from '../support/subjects/webhook-publishers.ts'

const OTHER_SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'

describe('the signature', () => {
  test('W8 each attempt is signed at its own time, with each secret, as the published library verifies', async () => {
    const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
    const publisher = webhookPublisherOf({ secret: [OTHER_SECRET, SECRETS.standard] })
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
      const [result] = await publish(webhookPublisherOf({ secret }), [
        outboxMessage({ topic: endpoint.url() }),
      ])
      expect(summary([result!])).toEqual(['rejected for now'])
      expect(reason(result)).not.toContain('hidden-word')
    }
    expect(endpoint.all).toEqual([])
    await publish(webhookPublisherOf(), [outboxMessage({ topic: endpoint.url() })])
    expect(endpoint.all[0]?.headers).not.toHaveProperty('webhook-signature')
  })
})

test('W8 user and password of the URL become a header, and no message may replace the header', async () => {
  const endpoint = await WebhookEndpoint.start((_, response) => void response.writeHead(204).end())
  const topic = endpoint.url().replace('http://', 'http://us%3Aer:p%C3%A4ss@')
  const own = outboxMessage({ topic, headers: { Authorization: 'mine' } })
  expect(summary(await publish(webhookPublisherOf(), [outboxMessage({ topic }), own]))).toEqual([
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
    const publisher = webhookPublisherOf()
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
      const [result] = await publish(webhookPublisherOf(options), [outboxMessage({ topic: endpoint.url() })])
      expect(reason(result)).toContain(`no answer within ${TIMEOUT_MS} ms`)
    }
  })

  test('W9 a message that waits for a slow host longer than timeoutMs waits without counting, but for one endpoint it is sent', async () => {
    const endpoint = await WebhookEndpoint.start((_, response) => {
      setTimeout(() => response.writeHead(204).end(), 600)
    })
    const messages = ['a', 'b', 'c'].map((id) => outboxMessage({ topic: endpoint.url(), id }))
    const options = { perHostConcurrency: 1, timeoutMs: 1000 }
    const results = await publish(webhookPublisherOf(options), messages)
    expect(summary(results)).toEqual(['accepted', 'accepted', 'rejected for now'])
    expect(results[2]).toHaveProperty('counted', false)
    expect(reason(results[2])).toContain('busy with other requests for 1000 ms')
    const one = webhookPublisherOf({ ...options, url: endpoint.url() })
    expect(summary(await publish(one, messages))).toEqual(['accepted', 'accepted', 'accepted'])
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
    await publish(webhookPublisherOf({ perHostConcurrency: 2 }), messages)
    expect(most).toBe(6)
    most = 0
    await publish(webhookPublisherOf({ concurrency: 4, perHostConcurrency: 3 }), messages)
    expect(most).toBe(4)
  })
})

test('W8 the retries are those that Standard Webhooks recommends', () => {
  const policy = webhookRetries()
  const { attempts } = policy
  const pauses = Array.from({ length: attempts - 1 }, (_, n) => policy.delayMs(n + 1, Math.random))
  expect(attempts).toBe(10)
  const minutes = [5, 30, 120, 300, 600, 840, 1200, 1440]
  expect(pauses).toEqual([5000, ...minutes.map((each) => each * 60_000)])
  const hours = pauses.reduce((sum, each) => sum + each, 0) / 3_600_000
  expect(hours).toBeGreaterThan(75)
  expect(hours).toBeLessThan(76)
})
