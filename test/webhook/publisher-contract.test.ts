import { describe, expect, test } from 'vitest'
import { publisherContract, type PublisherUnderTest, type ReadMessage } from '@txbox/testing'
import { fromWebhook, verifyWebhook, webhookPublisher, type WebhookMessage } from '@txbox/webhook'
import { SECRETS } from '../support/subjects/signed-webhooks.ts'
import { networkUnderTest, testContract } from '../support/subjects/contract-tests.ts'
import { WebhookEndpoint, type ArrivedRequest } from '../support/subjects/webhook-endpoint.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'

const OTHER_SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD'
const TIMEOUT_MS = 1500

const wrongOptions = {
  'no URL': () => webhookPublisher({ url: 'shop' }),
  'another protocol': () => webhookPublisher({ url: 'ftp://shop.example' }),
  'an empty secret': () => webhookPublisher({ secret: '' }),
  'a secret that is undefined': () => webhookPublisher({ secret: undefined as never }),
  'a secret that is null': () => webhookPublisher({ secret: null as never }),
  'a short secret': () => webhookPublisher({ secret: `whsec_${Buffer.alloc(23).toString('base64')}` }),
  'a long secret': () => webhookPublisher({ secret: `whsec_${Buffer.alloc(65).toString('base64')}` }),
  'no secrets': () => webhookPublisher({ secret: [] }),
  'headers that are a list': () => webhookPublisher({ headers: [] as never }),
  'a header of the publisher': () => webhookPublisher({ headers: { 'Webhook-Id': 'x' } }),
  'a header that HTTP obeys': () => webhookPublisher({ headers: { 'Keep-Alive': 'timeout=5' } }),
  'a header with a line break': () => webhookPublisher({ headers: { authorization: 'a\r\nb' } }),
  'a header twice': () => webhookPublisher({ headers: { tenant: 'a', Tenant: 'b' } }),
  'no concurrency': () => webhookPublisher({ concurrency: 0 }),
  'too much concurrency': () => webhookPublisher({ perHostConcurrency: 1001 }),
  'too short a time': () => webhookPublisher({ timeoutMs: 9 }),
  'too long a time': () => webhookPublisher({ timeoutMs: 3_600_001 }),
  'allow that is no function': () => webhookPublisher({ allow: true as never }),
  'fetch that is no function': () => webhookPublisher({ fetch: {} as never }),
  'too large a limit': () => webhookPublisher({ maxMessageBytes: 104_857_601 }),
  'an unknown option': () => webhookPublisher({ secrets: 'x' } as never),
}

/** Returns the messages that arrived since the last call. The endpoint forgets all requests. */
function take(endpoint: WebhookEndpoint): ArrivedRequest[] {
  endpoint.all.length = 0
  return endpoint.arrived()
}

function received({ headers, payload }: ArrivedRequest): WebhookMessage {
  return fromWebhook(
    { headers, body: payload },
    { scheme: 'standard', source: 'shop', secret: SECRETS.standard },
  )
}

/** The message as `fromWebhook` reads it. */
function readBack(request: ArrivedRequest): ReadMessage {
  const { headers } = request
  const message = received(request)
  const { id, type, correlationId, time } = message
  const createdAt = new Date(String(time))
  const [key, contentType] = [headers['txbox-key'] as string | undefined, headers['content-type']]
  return { id, type, key, correlationId, createdAt, contentType, headers: message.headers ?? {} }
}

const NO_BROKER = 'each topic is an address of its own, which can only refuse messages'
const TOPICS_ARE_ADDRESSES = Object.fromEntries(
  ['O3', 'A1', 'A2', 'A3', 'A4', 'A5', 'A6', 'A7'].map((rule) => [rule, NO_BROKER]),
)

describe.for(['the client of Node.js', 'fetch'])('each topic is a URL, over %s', (client) => {
  const cases = publisherContract(
    {
      ordering: 'per-key',
      lowerCaseHeaders: true,
      wrongOptions,
    },
    async (): Promise<PublisherUnderTest> => {
      let isFull = true
      const endpoint = await WebhookEndpoint.start(({ path }, response) => {
        const full = path === '/full' && isFull
        response.writeHead(path === '/missing' ? 404 : full ? 429 : 204).end()
      })
      return {
        publisher: webhookPublisher({
          secret: [OTHER_SECRET, SECRETS.standard],
          allow: () => true,
          headers: { authorization: 'Bearer hidden-word' },
          ...(client === 'fetch' && { fetch }),
        }),
        goodTopic: endpoint.url('/good'),
        badTopic: endpoint.url('/missing'),
        tooLarge: 1_048_577,
        secret: 'hidden-word',
        poison: {
          'an id with a dot': { id: 'a.b' },
          'an id with a blank': { id: 'a b' },
          'an id beyond ASCII': { id: 'é' },
          'an empty id': { id: '' },
          'a header of HTTP': { headers: { 'Transfer-Encoding': 'chunked' } },
          'a header of the publisher': { headers: { 'Webhook-Signature': 'v1,x' } },
          'a header of all messages': { headers: { Authorization: 'mine' } },
          'a name with a blank': { headers: { 'a b': 'c' } },
          'a value with a line break': { headers: { a: 'b\r\nc: d' } },
          'a value that HTTP would trim': { headers: { a: ' b' } },
          'a value above U+00FF': { headers: { a: '日' } },
          'a key above U+00FF': { key: '日' },
          'a topic that is no URL': { topic: 'orders' },
          'a topic of another protocol': { topic: 'file:///etc/passwd' },
        },
        full: { topic: endpoint.url('/full'), free: async () => void (isFull = false) },
        arrived: async () => take(endpoint),
        readBack: async () => take(endpoint).map(readBack),
        received: async () => take(endpoint).map(received),
      }
    },
  )

  testContract(cases, {
    without: {
      ...TOPICS_ARE_ADDRESSES,
      ...(client === 'fetch' && {
        S4: 'connections belong to the global fetch, which keeps them open for some seconds',
      }),
    },
  })
})

describe('one endpoint', () => {
  const cases = publisherContract(
    {
      ordering: 'per-key',
      lowerCaseHeaders: true,
      answerTimeoutMs: TIMEOUT_MS,
    },
    async (): Promise<PublisherUnderTest> => {
      // The endpoint knows one secret, and refuses what is signed with the other one.
      const endpoint = await WebhookEndpoint.start(({ headers, payload }, response) => {
        const isKnown = headers['webhook-signature'] === undefined || isSigned(headers, payload)
        response.writeHead(isKnown ? 204 : 401).end()
      })
      const network = await UnreliableNetwork.to({ host: '127.0.0.1', port: endpoint.port })
      const { host, port } = network.address
      return {
        publisher: webhookPublisher({
          url: `http://${host}:${port}/hook`,
          secret: ({ topic }) => (topic === 'bad' ? OTHER_SECRET : SECRETS.standard),
          allow: () => true,
          timeoutMs: TIMEOUT_MS,
        }),
        secret: SECRETS.standard,
        goodTopic: 'good',
        badTopic: 'bad',
        network: networkUnderTest(network),
        unresolved: webhookPublisher({ url: 'https://nowhere.invalid/', timeoutMs: TIMEOUT_MS }),
        arrived: async () => take(endpoint),
        readBack: async () => take(endpoint).map(readBack),
        received: async () => take(endpoint).map(received),
        close: () => network.close(),
      }
    },
  )

  testContract(cases, {
    without: {
      ...{ V2: 'shown above', V3: 'shown above', V4: 'shown above' },
      A4: 'a refused secret is a refused message: status 401',
    },
  })
})

function isSigned(headers: ArrivedRequest['headers'], body: Buffer): boolean {
  try {
    verifyWebhook({ headers, body }, { scheme: 'standard', secret: SECRETS.standard })
    return true
  } catch {
    return false
  }
}

test('the contract has a case for each rule', () => {
  const open = (): Promise<PublisherUnderTest> => Promise.reject(new Error('not opened'))
  const rules = publisherContract({ ordering: 'per-key', wrongOptions }, open).map(({ rule }) => rule)
  expect([...new Set(rules)]).toEqual(
    (
      'P1 P2 P3 P4 P5 P6 P7 F1 F2 F3 F4 F5 F6 O1 O2 O3 O4 V1 V2 V3 V4 V5 ' +
      'A1 A2 A3 A4 A5 A6 A7 S1 S2 S3 S4 S5 U1'
    ).split(' '),
  )
})
