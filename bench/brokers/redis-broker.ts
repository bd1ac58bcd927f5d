import { randomUUID } from 'node:crypto'
import { redisPublisher, redisSource } from '@txbox/redis'
import { RESP_TYPES, createClient } from 'redis'
import type { HandClient } from '../postgres/relay-by-hand.ts'
import { PREFETCH, headersOf, type BenchBroker } from './bench-broker.ts'
import { HandlersByHand, readMessage, type ReadMessage } from './work-by-hand.ts'

const REDIS_URL = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379'
const GROUP = 'bench'
const NAMES = { id: 'id', key: 'key', type: 'type', contentType: 'content-type', time: 'time' }

/** A stream of Redis, with node-redis. */
export const redisBroker: BenchBroker = {
  name: 'Redis Streams',
  messages: 30_000,
  variable: 'REDIS_URL',
  async open() {
    const client = createClient({ url: REDIS_URL, socket: { reconnectStrategy: false } })
    client.on('error', () => undefined)
    if ((await client.connect().catch(() => undefined)) === undefined) return undefined
    const stream = `txbox-bench-${randomUUID()}`
    return {
      async empty() {
        await client.del(stream)
        await client.xGroupCreate(stream, GROUP, '0', { MKSTREAM: true })
      },
      count: () => client.xLen(stream),
      publisher: () => redisPublisher({ url: REDIS_URL, stream: () => stream }),
      client: () => connected(stream),
      source: () => redisSource({ url: REDIS_URL, stream, group: GROUP }),
      receiveBare: (messages) => receive(stream, messages),
      receiveLikeSource: (messages) => receiveLikeSource(stream, messages),
      async dispose() {
        await client.del(stream)
        await client.close()
      },
    }
  },
}

async function connected(stream: string): Promise<HandClient> {
  const client = createClient({ url: REDIS_URL })
  client.on('error', () => undefined)
  await client.connect()
  return {
    async publish(rows) {
      // The client sends the commands of one turn in one flight.
      await Promise.all(
        rows.map(({ id, key, type, content_type, created_at, headers, payload }) =>
          client.xAdd(stream, '*', {
            id,
            ...(type === null ? {} : { type }),
            ...(key === null ? {} : { key }),
            'content-type': content_type,
            time: created_at.toISOString(),
            ...(Object.keys(headersOf(headers)).length === 0 ? {} : { headers }),
            payload,
          }),
        ),
      )
    },
    close: () => client.close(),
  }
}

async function receive(stream: string, messages: number): Promise<void> {
  const client = createClient({ url: REDIS_URL })
  client.on('error', () => undefined)
  await client.connect()
  for (let handled = 0; handled < messages;) {
    const read = (await client.xReadGroup(
      GROUP,
      'bare',
      { key: stream, id: '>' },
      { COUNT: PREFETCH, BLOCK: 1000 },
    )) as readonly { readonly messages: readonly { readonly id: string }[] }[] | null
    const entries = read?.[0]?.messages ?? []
    await Promise.all(entries.map(({ id }) => client.xAck(stream, GROUP, id)))
    handled += entries.length
  }
  await client.close()
}

interface Entry {
  readonly id: Buffer
  readonly message: Readonly<Record<string, Buffer>>
}

/** Acknowledges all messages of a read by one command. */
async function receiveLikeSource(stream: string, messages: number): Promise<void> {
  const client = createClient({ url: REDIS_URL })
  client.on('error', () => undefined)
  await client.connect()
  const bytes = client.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer })
  const handlers = new HandlersByHand()
  for (let handled = 0; handled < messages;) {
    const read = (await bytes.xReadGroup(
      GROUP,
      'bare',
      { key: stream, id: '>' },
      { COUNT: PREFETCH, BLOCK: 1000 },
    )) as readonly { readonly messages: readonly Entry[] }[] | null
    const entries = read?.[0]?.messages ?? []
    if (entries.length === 0) continue
    await Promise.all(entries.map(({ message }) => handlers.handle(readEntry(message))))
    await client.xAck(
      stream,
      GROUP,
      entries.map(({ id }) => id),
    )
    handled += entries.length
  }
  await client.close()
}

function readEntry({ payload, headers, ...fields }: Entry['message']): ReadMessage {
  const texts = Object.entries(fields).map(([name, value]) => [name, value.toString()] as const)
  const own = headers === undefined ? [] : Object.entries(headersOf(headers.toString()))
  return readMessage([...own, ...texts], payload!, NAMES)
}
