import type { JsMsg } from '@nats-io/jetstream'
import { fromNats, natsPublisher } from '@txbox/nats'
import { publisherContract, type ReadMessage } from '@txbox/testing'
import { networkUnderTest, testContract } from '../support/subjects/contract-tests.ts'
import { idOf, urlAt, useNats } from './nats-under-test.ts'

const nats = useNats()

const MAX_PAYLOAD = 1_048_576

/** The size of the headers of a message that has an id, a content type and a time, as in the contract's case about sizes. */
function headersBytes(subject: string): number {
  const id = '01234567-0123-0123-0123-0123456789ab'
  return [
    'NATS/1.0\r\n\r\n',
    `txbox-id: ${id}\r\n`,
    `Nats-Msg-Id: ${id} ${subject}\r\n`,
    'content-type: application/json\r\n',
    'txbox-time: 2026-03-04T05:06:07.890Z\r\n',
  ].join('').length
}

const FIELDS = new Set([
  'Nats-Msg-Id',
  'txbox-id',
  'txbox-type',
  'txbox-key',
  'txbox-correlation-id',
  'txbox-time',
  'content-type',
])

const ONE = { servers: 'nats://127.0.0.1:4222' }
const wrongOptions = {
  'no server': () => natsPublisher({} as never),
  'an empty list of servers': () => natsPublisher({ servers: [] }),
  'too many servers': () => natsPublisher({ servers: Array.from({ length: 101 }, () => 'nats://nats:4222') }),
  'a server without a scheme': () => natsPublisher({ servers: '127.0.0.1:4222' }),
  'a server of another protocol': () => natsPublisher({ servers: 'http://127.0.0.1:4222' }),
  'a password that ends the host': () => natsPublisher({ servers: 'nats://user:p/w@127.0.0.1' }),
  'servers with and without TLS': () => natsPublisher({ servers: ['nats://a', 'tls://b'] }),
  'two logins': () => natsPublisher({ servers: ['nats://a:b@a', 'nats://a:c@b'] }),
  'a login in the URL and another one': () => natsPublisher({ servers: 'nats://a:b@a', user: 'c' }),
  'a user and a token': () => natsPublisher({ ...ONE, user: 'a', token: 'b' }),
  'a password without a user': () => natsPublisher({ ...ONE, password: 'a' }),
  'certificates without TLS': () => natsPublisher({ ...ONE, tls: {} }),
  'TLS with an unknown member': () =>
    natsPublisher({ servers: 'tls://a', tls: { certificate: '' } as never }),
  'an inbox with a wildcard': () => natsPublisher({ ...ONE, inboxPrefix: 'a.*' }),
  'a stream with a blank': () => natsPublisher({ ...ONE, stream: 'a b' }),
  'a subject that is text': () => natsPublisher({ ...ONE, subject: 'orders' as never }),
  'too many in flight': () => natsPublisher({ ...ONE, maxInFlight: 10_001 }),
  'none in flight': () => natsPublisher({ ...ONE, maxInFlight: 0 }),
  'too short a time': () => natsPublisher({ ...ONE, confirmTimeoutMs: 9 }),
  'too long a time': () => natsPublisher({ ...ONE, connectTimeoutMs: 3_600_001 }),
  'too large a limit': () => natsPublisher({ ...ONE, maxMessageBytes: 67_108_865 }),
  'an unknown option': () => natsPublisher({ ...ONE, reconnect: true } as never),
}

function readBack(message: JsMsg): ReadMessage {
  const { headers } = message
  const field = (name: string): string | undefined => (headers!.has(name) ? headers!.last(name) : undefined)
  return {
    id: idOf(message),
    type: field('txbox-type'),
    key: field('txbox-key'),
    correlationId: field('txbox-correlation-id'),
    contentType: field('content-type'),
    createdAt: new Date(field('txbox-time') ?? ''),
    headers: Object.fromEntries(
      [...headers!].filter(([name]) => !FIELDS.has(name)).map(([name, [value]]) => [name, value!]),
    ),
  }
}

const cases = publisherContract(
  {
    ordering: 'per-key',
    answerTimeoutMs: 2000,
    deduplicates: true,
    wrongOptions,
  },
  async () => {
    const network = await nats.network()
    // The case about memory sends 420 MB.
    const stream = await nats.stream({ storage: 'file' })
    const small = await nats.stream({ max_msgs: 1, discard: 'new' })
    await nats.send(`${small}.first`, ['first'])
    const take = await nats.log(stream)
    return {
      publisher: nats.publisher({
        servers: urlAt(network.address),
        confirmTimeoutMs: 2000,
        connectTimeoutMs: 1000,
      }),
      goodTopic: `${stream}.good`,
      badTopic: nats.name('missing'),
      network: networkUnderTest(network),
      tooLarge: MAX_PAYLOAD - headersBytes(`${stream}.good`) + 1,
      poison: {
        'a subject with a wildcard': { topic: `${stream}.*` },
        'a subject with all below it': { topic: `${stream}.>` },
        'a subject with an empty part': { topic: `${stream}..a` },
        'a subject that ends with a dot': { topic: `${stream}.a.` },
        'a subject with a blank': { topic: `${stream}.a b` },
        'a subject with a line break': { topic: `${stream}.a\r\nPUB x 0` },
        'a subject that is too long': { topic: `${stream}.${'x'.repeat(2000)}` },
        'a subject that JetStream obeys': { topic: `$JS.API.STREAM.DELETE.${stream}` },
        'a subject of replies': { topic: '_INBOX.a' },
        'an id with blanks around it': { id: ' a ' },
        'an id with a line break': { id: 'a\nb' },
        'a key with a lone surrogate': { key: '\uD800' },
        'a type with a tab at its end': { type: 'a\t' },
        'a header with blanks around it': { headers: { a: '  pad  ' } },
        'a header with a line break': { headers: { a: 'b\r\nNats-Rollup: all' } },
        'a header with a lone surrogate': { headers: { a: '\uD800' } },
        'a name of a header with a blank': { headers: { 'a b': 'c' } },
        'a name of a header with a colon': { headers: { 'a:b': 'c' } },
        'a name of a header that is not ASCII': { headers: { é: 'c' } },
        'a header without a name': { headers: { '': 'c' } },
        'a header that is no text': { headers: { a: 1 as never } },
        'a header that JetStream obeys': { headers: { 'Nats-Rollup': 'all' } },
        'the same in lower case': { headers: { 'nats-msg-id': 'a' } },
        'too many headers': { headers: { a: 'x'.repeat(65_536) } },
        'no time of creation': { createdAt: new Date(NaN) },
      },
      full: {
        topic: `${small}.second`,
        free: async () => void (await nats.manager.streams.purge(small)),
      },
      unresolved: natsPublisher({ servers: 'nats://nowhere.invalid', connectTimeoutMs: 1000 }),
      arrived: async () => (await take()).map((message) => ({ id: idOf(message), payload: message.data })),
      readBack: async () => (await take()).map(readBack),
      received: async () => (await take()).map((message) => fromNats(message)),
    }
  },
)

testContract(cases, {
  without: { A4: 'the server of this project asks for no password: server/logins.test.ts' },
})
