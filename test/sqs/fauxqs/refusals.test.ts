import { createHash } from 'node:crypto'
import { SNSClient } from '@aws-sdk/client-sns'
import { SQSClient } from '@aws-sdk/client-sqs'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, onTestFinished, test, vi } from 'vitest'
import { createConsumer } from '@txbox/consumer'
import {
  isTxboxError,
  sqsPublisher,
  sqsSource,
  type PublishResult,
  type SqsPublisherOptions,
} from '@txbox/sqs'
import { until } from '../../support/worlds/until.ts'
import { answeringServer, snsError, sqsError, type Answer } from '../answering-server.ts'
import { messageTo, published } from '../published.ts'
import { clientSettings } from '../sqs-under-test.ts'

const QUEUE = 'http://127.0.0.1/1/orders'
const TOPIC = 'arn:aws:sns:eu-central-1:123456789012:orders'
const SESSION_TOKEN = 'FwoGZXIvYXdzEBYaDSECRETSESSIONTOKEN'

async function publisherOn(
  answer: (operation: string, sent: string) => Answer,
  options: SqsPublisherOptions = {},
) {
  const endpoint = await answeringServer(answer)
  const settings = clientSettings(endpoint)
  const credentials = { ...settings.credentials, sessionToken: SESSION_TOKEN }
  const client = new SQSClient({ ...settings, credentials })
  const snsClient = new SNSClient({ ...settings, credentials })
  const publisher = sqsPublisher({ client, snsClient, confirmTimeoutMs: 1000, ...options })
  onTestFinished(async () => {
    await publisher.close?.()
    client.destroy()
    snsClient.destroy()
  })
  return publisher
}

async function resultOf(answer: Answer, topic = QUEUE): Promise<PublishResult> {
  const publisher = await publisherOn(() => answer)
  return (await published(publisher, [messageTo(topic)]))[0]!
}

async function errorOf(answer: Answer, topic = QUEUE): Promise<Error> {
  const publisher = await publisherOn(() => answer)
  const publishing = published(publisher, [messageTo(topic)])
  const error = await publishing.then(
    (results) => expect.fail(`it resolved with ${JSON.stringify(results)}`),
    (thrown: Error) => thrown,
  )
  expect(isTxboxError(error) && error.code).toBe('TXBOX_BROKER_UNAVAILABLE')
  expect((error as { retryable?: boolean }).retryable).toBe(true)
  return error
}

interface Entry {
  readonly Id: string
  readonly MessageBody: string
}

function entriesIn(sent: string): readonly Entry[] {
  return (JSON.parse(sent) as { Entries: readonly Entry[] }).Entries
}

function accepted(entries: readonly Entry[], Failed: readonly object[] = []): Answer {
  const Successful = entries.map(({ Id, MessageBody }) => ({
    Id,
    MessageId: Id,
    MD5OfMessageBody: createHash('md5').update(MessageBody).digest('hex'),
  }))
  return { status: 200, body: JSON.stringify({ Successful, Failed }) }
}

const COUNTED = { status: 'rejected', retryable: true }
const UNCOUNTED = { ...COUNTED, counted: false }
const FINAL = { status: 'rejected', retryable: false }

test.for([
  [
    'a missing queue',
    QUEUE,
    sqsError(400, 'QueueDoesNotExist', 'The specified queue does not exist.'),
    COUNTED,
  ],
  ['no right', QUEUE, sqsError(403, 'AccessDeniedException', 'User is not authorized.'), COUNTED],
  ['no right to the key', QUEUE, sqsError(400, 'KmsAccessDenied', 'The caller has no permission.'), COUNTED],
  ['a disabled key', QUEUE, sqsError(400, 'KmsDisabled', 'The key is disabled.'), UNCOUNTED],
  ['throttling', QUEUE, sqsError(400, 'RequestThrottled', 'The request was denied.'), UNCOUNTED],
  ['throttling by another name', QUEUE, sqsError(400, 'ThrottlingException', 'Rate exceeded'), UNCOUNTED],
  ['too much', QUEUE, sqsError(400, 'OverLimit', 'Too many.'), UNCOUNTED],
  ['too large a request', QUEUE, sqsError(400, 'BatchRequestTooLong', 'Too long.'), FINAL],
  ['a wrong parameter', QUEUE, sqsError(400, 'InvalidParameterValue', 'One is invalid.'), FINAL],
  ['a missing topic', TOPIC, snsError(404, 'NotFound', 'Topic does not exist'), COUNTED],
  ['no right to a topic', TOPIC, snsError(403, 'AuthorizationError', 'User is not authorized.'), COUNTED],
  [
    'a topic of another region',
    TOPIC,
    snsError(400, 'InvalidParameter', 'Invalid parameter: TopicArn'),
    COUNTED,
  ],
  ['a throttled topic', TOPIC, snsError(400, 'Throttled', 'Rate exceeded'), UNCOUNTED],
] as const)('O4 %s is a rejection', async ([, topic, answer, expected]) => {
  const result = await resultOf(answer, topic)
  expect(result).toMatchObject(expected)
  if (!('counted' in expected)) expect(result).not.toHaveProperty('counted')
  expect(String((result as { error: Error }).error)).toContain(topic)
})

test.for([
  ['expired credentials', QUEUE, sqsError(403, 'ExpiredToken', 'The security token has expired')],
  ['unknown credentials', QUEUE, sqsError(403, 'InvalidClientTokenId', 'The security token is invalid.')],
  ['a wrong clock', QUEUE, sqsError(403, 'RequestExpired', 'Request has expired.')],
  ['an error of the service', QUEUE, sqsError(500, 'InternalError', 'We encountered an error.')],
  ['a service that is away', QUEUE, sqsError(503, 'ServiceUnavailable', 'Try again.')],
  ['a page with an error', QUEUE, { status: 502, body: '<html><h1>Bad Gateway</h1></html>' }],
  ['a page that was not found', QUEUE, { status: 404, body: '<html><h1>Not Found</h1></html>' }],
  ['a page of another server', QUEUE, { status: 200, body: '<html><h1>Log in</h1></html>' }],
  ['an empty answer', QUEUE, { status: 200, body: '' }],
  ['an answer without results', QUEUE, { status: 200, body: '{}' }],
  ['expired credentials for SNS', TOPIC, snsError(403, 'ExpiredToken', 'The security token has expired')],
  ['a page with an error for SNS', TOPIC, { status: 502, body: '<html><h1>Bad Gateway</h1></html>' }],
  ['a page that SNS has not', TOPIC, { status: 404, body: '<html><h1>Not Found</h1></html>' }],
  ['an empty page that SNS has not', TOPIC, { status: 404, body: '' }],
  ['a page of another server for SNS', TOPIC, { status: 200, body: '<html><h1>Log in</h1></html>' }],
] as const)('O6 %s is an outage', async ([, topic, answer]) => {
  const error = await errorOf(answer, topic)
  expect(error.message.length).toBeGreaterThan(20)
  expect(error.message).not.toContain('$response')
})

test('no error shows a session token, which SQS quotes where a signature is wrong', async () => {
  const signed = `The Canonical String for this request should have been 'POST / x-amz-security-token:${SESSION_TOKEN}'`
  const error = await errorOf(
    sqsError(403, 'SignatureDoesNotMatch', `The request signature we calculated does not match. ${signed}`),
  )
  expect(error.message).toContain('does not match')
  expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain(SESSION_TOKEN)
  expect(error.cause).toBe(undefined)
})

test('P5 each entry has a result of its own', async () => {
  const failed = [
    ['InvalidMessageContents', true],
    ['InternalError', false],
    ['AccessDenied', true],
    ['RequestThrottled', true],
  ] as const
  const publisher = await publisherOn((_, sent) => {
    const Failed = failed.map(([Code, SenderFault], n) => ({ Id: String(n), Code, SenderFault }))
    return accepted(entriesIn(sent).slice(4), Failed)
  })
  const results = await published(
    publisher,
    Array.from({ length: 5 }, () => messageTo(QUEUE)),
  )
  expect(results).toMatchObject([FINAL, UNCOUNTED, COUNTED, UNCOUNTED, { status: 'accepted' }])
})

test('a message that makes SQS refuse its whole request is found, and the others are sent', async () => {
  const sizes: number[] = []
  const publisher = await publisherOn((_, sent) => {
    const Entries = entriesIn(sent)
    sizes.push(Entries.length)
    if (Entries.some(({ MessageBody }) => MessageBody.includes('poison'))) {
      return sqsError(400, 'InvalidParameterValue', 'One is invalid.')
    }
    return accepted(Entries)
  })
  const results = await published(
    publisher,
    Array.from({ length: 10 }, (_, n) =>
      messageTo(QUEUE, { payload: Buffer.from(n === 3 ? 'poison' : 'good') }),
    ),
  )
  expect(results.map(({ status }) => status)).toEqual(
    Array.from({ length: 10 }, (_, n) => (n === 3 ? 'rejected' : 'accepted')),
  )
  expect(results[3]).toMatchObject(FINAL)
  expect(sizes).toEqual([10, ...Array.from({ length: 10 }, () => 1)])
})

test('a client that the publisher makes sends nothing to the host that a topic names', async () => {
  const asked: string[] = []
  const foreign = await answeringServer((operation) => {
    asked.push(operation)
    return { status: 500, body: '' }
  })
  vi.stubEnv('AWS_ACCESS_KEY_ID', 'test')
  vi.stubEnv('AWS_SECRET_ACCESS_KEY', 'test')
  onTestFinished(() => void vi.unstubAllEnvs())
  // The host of SQS in this region has no address.
  const publisher = sqsPublisher({ region: 'nowhere-1', confirmTimeoutMs: 5000 })
  onTestFinished(() => publisher.close?.())
  const publishing = published(publisher, [messageTo(`${foreign}/123456789012/orders`)])
  await expect(publishing).rejects.toMatchObject({ code: 'TXBOX_BROKER_UNAVAILABLE' })
  expect(asked).toEqual([])
})

test('check takes a user who may not list queues, and throws for credentials that have expired', async () => {
  const signal = new AbortController().signal
  const limited = await publisherOn((operation) =>
    operation === 'ListTopics'
      ? snsError(403, 'AuthorizationError', 'User is not authorized.')
      : sqsError(403, 'AccessDenied', 'User is not authorized.'),
  )
  await limited.check!({ signal })
  const expired = await publisherOn(() => sqsError(403, 'ExpiredToken', 'The security token has expired'))
  await expect(expired.check!({ signal })).rejects.toMatchObject({
    code: 'TXBOX_BROKER_UNAVAILABLE',
    message: expect.stringContaining('ExpiredToken'),
  })
})

test('C24 a source reports why SQS is away, and receives again when it is back', async () => {
  let answer: Answer = { status: 502, body: '<html>Bad Gateway</html>' }
  const endpoint = await answeringServer((operation) => {
    if (answer.status !== 200) return answer
    return { status: 200, body: operation === 'GetQueueUrl' ? JSON.stringify({ QueueUrl: QUEUE }) : '{}' }
  })
  const client = new SQSClient(clientSettings(endpoint))
  const failures: string[] = []
  const consumer = createConsumer({
    source: sqsSource({ client, queue: 'orders', waitMs: 1000 }),
    name: 'billing',
    deadLetters: await publisherOn(() => answer),
    handler: async () => undefined,
    logger: false,
  })
  onTestFinished(async () => {
    await consumer.stop()
    client.destroy()
  })
  consumer.on('unavailable', ({ error }) => failures.push(String(error)))
  await consumer.start()
  expect(failures[0]).toContain('it answered with the HTTP status 502, but not as SQS or SNS does')
  answer = sqsError(403, 'ExpiredToken', 'The security token has expired')
  await until(
    async () => failures.some((each) => each.includes('ExpiredToken')),
    () => `expired credentials are reported: ${failures.join()}`,
  )
  const before = failures.length
  answer = { status: 200, body: '{}' }
  await pause(1500)
  expect(failures.length).toBeLessThanOrEqual(before + 1)
})
