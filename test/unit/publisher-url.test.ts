import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerCall, rabbitmqOptions } from '../../packages/command/src/publish/broker-options.ts'
import { loadPackage } from '../../packages/command/src/publish/broker-packages.ts'
import { pgBossSettings } from '../../packages/command/src/publish/pg-boss-publisher.ts'
import { publisherUrl } from '../../packages/command/src/publish/publisher-url.ts'
import { webhookOptions } from '../../packages/command/src/publish/webhook-publisher.ts'

/** What has to be encoded in a URL, and must not be shown. */
const SECRET = 'hidden:/@#?%word'
const ENVIRONMENT = { SECRET, HOST: 'kafka-9:9093', WHOLE: 'nats://u:p@a,b:4223' }
const parsed = (url: string) => publisherUrl(url, ENVIRONMENT, 'a URL')
const optionsOf = (url: string) => brokerCall(parsed(url))?.options

test.for<[string, string, string, object]>([
  ['kafka://b1:9092,b2', '@txbox/kafka', 'kafkaPublisher', { brokers: ['b1:9092', 'b2:9092'] }],
  [
    'kafka+ssl://shop:p%40ss@[::1]:9093/?compression=zstd&idempotent=false&maxMessageBytes=5',
    '@txbox/kafka',
    'kafkaPublisher',
    {
      ...{ brokers: ['[::1]:9093'], tls: true, compression: 'zstd', idempotent: false, maxMessageBytes: 5 },
      sasl: { mechanism: 'PLAIN', username: 'shop', password: 'p@ss' },
    },
  ],
  [
    'kafka://shop:${SECRET}@${HOST}?sasl=scram-sha-512',
    '@txbox/kafka',
    'kafkaPublisher',
    {
      brokers: ['kafka-9:9093'],
      sasl: { mechanism: 'SCRAM-SHA-512', username: 'shop', password: SECRET },
    },
  ],
  [
    'nats://shop:${SECRET}@a:4222,b?stream=orders&maxInFlight=10',
    '@txbox/nats',
    'natsPublisher',
    {
      servers: ['nats://a:4222', 'nats://b'],
      user: 'shop',
      password: SECRET,
      stream: 'orders',
      maxInFlight: 10,
    },
  ],
  [
    '${WHOLE}',
    '@txbox/nats',
    'natsPublisher',
    { servers: ['nats://a', 'nats://b:4223'], user: 'u', password: 'p' },
  ],
  [
    'tls://token@a?credentialsFile=%2Fetc%2Fa.creds',
    '@txbox/nats',
    'natsPublisher',
    { servers: ['tls://a'], token: 'token', credentialsFile: '/etc/a.creds' },
  ],
  [
    'rediss://:${SECRET}@h:6379/1?maxLength=1000&waitReplicas=1',
    '@txbox/redis',
    'redisPublisher',
    { url: `rediss://:${encodeURIComponent(SECRET)}@h:6379/1`, maxLength: 1000, waitReplicas: 1 },
  ],
  ['sqs:', '@txbox/sqs', 'sqsPublisher', {}],
  [
    'sqs://eu-central-1?endpoint=http://127.0.0.1:9324&concurrency=4&attributes=a,b',
    '@txbox/sqs',
    'sqsPublisher',
    { region: 'eu-central-1', endpoint: 'http://127.0.0.1:9324', concurrency: 4, attributes: ['a', 'b'] },
  ],
  ['sns:?confirmTimeoutMs=10', '@txbox/sqs', 'sqsPublisher', { confirmTimeoutMs: 10, check: 'sns' }],
])('%s', ([url, name, make, options]) => {
  expect(brokerCall(parsed(url))).toEqual({ package: name, make, options })
})

test('a prefix of Redis goes before the topic', () => {
  const { stream, ...others } = optionsOf('redis://h/0?prefix=shop:') as {
    stream: (message: object) => string
  }
  expect(others).toEqual({ url: 'redis://h/0' })
  expect(stream({ topic: 'orders' })).toBe('shop:orders')
})

test.for<[string, string | undefined, object]>([
  ['amqp://h', undefined, { url: 'amqp://h', exchange: 'txbox' }],
  [
    'amqps://u:${SECRET}@h:5671/%2F?heartbeat=10&exchangeType=fanout&assertExchange=true',
    'orders',
    {
      ...{ url: `amqps://u:${encodeURIComponent(SECRET)}@h:5671/%2F?heartbeat=10`, exchange: 'orders' },
      ...{ exchangeType: 'fanout', assertExchange: true },
    },
  ],
  ['amqp://h/shop?exchange=', undefined, { url: 'amqp://h/shop', exchange: '' }],
])('RabbitMQ: %s', ([url, exchange, options]) => {
  expect(rabbitmqOptions(parsed(url), exchange)).toEqual(options)
})

test('pg-boss is in the database of the outbox, or elsewhere', () => {
  const database = 'postgres://u:p@db/shop?sslmode=require'
  expect(pgBossSettings(parsed('pg-boss:?schema=jobs&data=payload'), database)).toEqual({
    ...{ options: { data: 'payload' }, boss: { connectionString: database, schema: 'jobs' } },
  })
  expect(pgBossSettings(parsed('pg-boss://u:${SECRET}@h/jobs?sslmode=require'), undefined)).toEqual({
    options: {},
    boss: { connectionString: `postgres://u:${encodeURIComponent(SECRET)}@h/jobs?sslmode=require` },
  })
  for (const other of [undefined, 'mysql://h/shop']) {
    expect(() => pgBossSettings(parsed('pg-boss:'), other)).toThrow(/in the PostgreSQL of --database/)
  }
})

describe('webhooks', () => {
  let folder = ''
  beforeAll(async () => void (folder = await mkdtemp(path.join(tmpdir(), 'txbox-'))))
  afterAll(() => rm(folder, { recursive: true }))

  test('one endpoint has its own query; topics are URLs otherwise', async () => {
    const url = 'https://h/path?timeoutMs=5&token=${SECRET}'
    expect(await webhookOptions(parsed(url), {}, {})).toMatchObject({
      url: `https://h/path?timeoutMs=5&token=${encodeURIComponent(SECRET)}`,
    })
    expect(await webhookOptions(parsed('webhook:?timeoutMs=5'), {}, {})).toEqual({ timeoutMs: 5 })
  })

  test('secrets are in a file, or in the environment', async () => {
    const file = path.join(folder, 'secret')
    await writeFile(file, 'whsec_new\nwhsec_old\n')
    const { webhookSecretFile, environment } = {
      webhookSecretFile: file,
      environment: { TXBOX_WEBHOOK_SECRET: 'whsec_a' },
    }
    expect(await webhookOptions(parsed('webhook:'), { webhookSecretFile }, environment)).toEqual({
      secret: ['whsec_new', 'whsec_old'],
    })
    expect(await webhookOptions(parsed('webhook:'), {}, environment)).toEqual({ secret: ['whsec_a'] })
    await writeFile(file, '\n')
    await expect(webhookOptions(parsed('webhook:'), { webhookSecretFile }, {})).rejects.toThrow(/is empty/)
    await expect(webhookOptions(parsed('webhook:'), { webhookSecretFile: folder }, {})).rejects.toThrow(
      /EISDIR/,
    )
  })

  test('http:// is for loopback, or must be allowed', async () => {
    for (const url of ['http://127.0.0.1:80/a', 'http://localhost/', 'http://[::1]:8080/']) {
      expect(await webhookOptions(parsed(url), {}, {})).toMatchObject({ url })
    }
    for (const url of ['http://h/', 'http://127.0.0.1.example/', 'http://localhost@h/']) {
      await expect(webhookOptions(parsed(url), {}, {})).rejects.toThrow(/--allow-http/)
    }
    expect(await webhookOptions(parsed('http://h/'), { allowHttp: true }, {})).toMatchObject({
      url: 'http://h/',
    })
  })
})

const call = (url: string) => () => brokerCall(parsed(url))
test.for<[string, () => unknown, RegExp]>([
  ['no scheme', call('hidden-word'), /is not a URL; expected a URL/],
  ['a fragment', call('kafka://h#hidden-word'), /is not a URL/],
  ['a variable that is nowhere', call('kafka://u:${NOWHERE}@h'), /variable NOWHERE/],
  ['wrong encoding', call('kafka://u:hidden%word@h'), /write %25 for %/],
  [
    'a name that is not known',
    call('kafka://h?acks=1'),
    /does not know \?acks=; it knows: clientId, compression, confirm/,
  ],
  ['a part of a password', call('kafka://u:1?hiddenword=@h'), /has an @ behind its host/],
  [
    'a part of a password as the path',
    () => rabbitmqOptions(parsed('amqp://u:1/hiddenword@h'), undefined),
    /has an @ behind/,
  ],
  ['a name twice', call('kafka://h?sasl=plain&sasl=plain'), /\?sasl= twice/],
  ['a number that is none', call('redis://h?maxLength=1e3'), /\?maxLength= must be a whole number/],
  ['a flag that is none', call('kafka://h?idempotent=yes'), /\?idempotent= must be true or false/],
  ['an unknown mechanism', call('kafka://u:p@h?sasl=gssapi'), /\?sasl= must be plain, scram-sha-256/],
  ['a password without TLS', call('kafka://u:hidden-word@h'), /use kafka\+ssl:\/\//],
  ['a host that is none', call('kafka://a b'), /host that cannot be read/],
  ['no host', call('kafka://'), /needs a host: kafka:\/\/host/],
  ['a path', call('nats://h/orders'), /takes no path/],
  ['two hosts of Redis', call('redis://a,b'), /takes one host/],
  ['a password for SQS', call('sqs://id:hidden-word@eu-central-1'), /credentials come from the environment/],
  ['two regions', call('sqs://a,b'), /takes one region/],
  [
    'a query of RabbitMQ',
    () => rabbitmqOptions(parsed('amqp://h?exchanges=a'), undefined),
    /it knows: assertExchange/,
  ],
  ['two exchanges', () => rabbitmqOptions(parsed('amqp://h?exchange=a'), 'b'), /give one of them/],
])('%s is wrong usage, and shows nothing of the URL', ([, run, text]) => {
  expect(run).toThrow(text)
  expect(run).not.toThrow(/hidden/)
})

test.for([
  ['@txbox/kafka', '@txbox/kafka @platformatic/kafka'],
  ['@txbox/nats', '@txbox/nats @nats-io/transport-node @nats-io/jetstream'],
  ['@txbox/redis', '@txbox/redis redis'],
  ['@txbox/sqs', '@txbox/sqs @aws-sdk/client-sqs @aws-sdk/client-sns'],
  ['@txbox/webhook', '@txbox/webhook'],
  ['@txbox/pg-boss', '@txbox/pg-boss pg-boss'],
  ['pg-boss', '@txbox/pg-boss pg-boss'],
  ['@txbox/cloudevents', '@txbox/cloudevents'],
] as const)('%s is installed by its own line', async ([name, packages]) => {
  const loaded = await loadPackage(name, async (...given) => ({ given }))
  expect(loaded['given']).toEqual([
    name,
    `npm install ${packages}`,
    expect.stringMatching(/^(to publish|for )/),
  ])
})
