import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { onTestFinished } from 'vitest'
import {
  redisPublisher,
  type NodeRedisStreamsClient,
  type OutboxMessage,
  type PublishResult,
  type Publisher,
  type RedisPublisherOptions,
  type RedisStreamsClient,
} from '@txbox/redis'
import { until } from '../support/worlds/until.ts'
import { uniqueName } from './unique-name.ts'
import type { ClientLibrary, RedisUnderTest } from './redis-under-test.ts'

interface Address {
  readonly host: string
  readonly port: number
}

/** An entry of a stream: its id, and the bytes of its fields by their names, in their order. */
export interface StoredEntry {
  readonly entryId: string
  readonly fields: ReadonlyMap<string, Buffer>
}

/** Reads a stream past the code under test. */
export class StreamLog {
  readonly #redis: RedisUnderTest
  readonly #stream: string
  #after = '-'

  constructor(redis: RedisUnderTest, stream: string) {
    this.#redis = redis
    this.#stream = stream
  }

  /** The entries that were added since the last call. Those before are deleted. */
  async take(): Promise<readonly StoredEntry[]> {
    const entries = await this.read()
    const last = entries.at(-1)
    if (last === undefined) return entries
    this.#after = `(${last.entryId}`
    // The last entry stays: a command that deletes it could delete one that was added meanwhile.
    await this.#redis.ask('XTRIM', this.#stream, 'MINID', last.entryId)
    return entries
  }

  /** The entries that were added since the last `take`, which stay: a replica deletes nothing. */
  async read(): Promise<readonly StoredEntry[]> {
    const answer = await this.#redis.askBytes('XRANGE', this.#stream, this.#after, '+')
    return (answer as [Buffer, Buffer[]][]).map(([id, list]) => ({
      entryId: String(id),
      fields: new Map(list.flatMap((name, n) => (n % 2 === 0 ? [[String(name), list[n + 1]!]] : []))),
    }))
  }

  async ids(): Promise<string[]> {
    return (await this.take()).map(idOf)
  }
}

export function textOf({ fields }: StoredEntry, name: string): string | undefined {
  return fields.get(name)?.toString()
}

export function idOf(entry: StoredEntry): string {
  return textOf(entry, 'id') ?? ''
}

export function urlAt({ host, port }: Address, login = ''): string {
  return `redis://${login}${host}:${port}`
}

/** A connected client as the publisher takes it, which connects again by itself. Closed after the test. */
export async function publishingClient(
  library: ClientLibrary,
  { host, port }: Address,
): Promise<RedisStreamsClient> {
  if (library === 'ioredis') {
    const client = new Redis({
      host,
      port,
      retryStrategy: () => 20,
      enableOfflineQueue: false,
      autoResendUnfulfilledCommands: false,
    })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    await new Promise<void>((resolve) => client.once('ready', () => resolve()))
    return client
  }
  const client = createClient({
    disableOfflineQueue: true,
    socket: { host, port, reconnectStrategy: () => 20 },
  })
  client.on('error', () => undefined)
  onTestFinished(() => client.destroy())
  await client.connect()
  return client
}

/** Waits until a client that connects again by itself has done so. */
export async function connected(client: RedisStreamsClient): Promise<void> {
  const ping = (): Promise<unknown> =>
    'callBuffer' in client
      ? client.callBuffer('PING')
      : (client as NodeRedisStreamsClient).sendCommand(['PING'])
  await until(
    async () => String(await ping().catch(() => '')) === 'PONG',
    () => 'the client is connected',
  )
}

/** A publisher that is closed after the test. */
export function publisherOf(options: RedisPublisherOptions): Publisher {
  const publisher = redisPublisher(options)
  onTestFinished(() => publisher.close?.())
  return publisher
}

/** A key that holds something other than a stream. */
export async function wrongKey(redis: RedisUnderTest): Promise<string> {
  const key = uniqueName('wrong')
  await redis.ask('SET', key, 'no stream')
  return key
}

/** The number of entries that a group has neither accepted nor rejected. */
export async function leftIn(redis: RedisUnderTest, stream: string, group: string): Promise<number> {
  const groups = (await redis.ask('XINFO', 'GROUPS', stream)) as readonly unknown[][]
  for (const about of groups) {
    const of = (name: string): unknown => about[about.indexOf(name) + 1]
    if (of('name') === group) return Number(of('pending')) + Number(of('lag'))
  }
  throw new Error(`The stream has no group ${group}.`)
}

/** A message as the relay passes it to a publisher. */
export function messageOf({
  payload,
  ...message
}: Partial<Omit<OutboxMessage, 'payload'>> & {
  readonly topic: string
  readonly payload?: unknown
}): OutboxMessage {
  return {
    id: randomUUID(),
    contentType: 'application/json',
    headers: {},
    createdAt: new Date(),
    attempt: 1,
    ...message,
    payload: Buffer.from(JSON.stringify(payload ?? {})),
    text: () => '',
    json: () => payload as never,
  }
}

export function publish(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
): Promise<readonly PublishResult[]> {
  return publisher.publish(messages, { signal: new AbortController().signal })
}

/** Publishes the messages, a few in each call, and each call again until all its messages are accepted, as the relay does. */
export async function publishUntilAccepted(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  size: number,
): Promise<void> {
  for (let from = 0; from < messages.length; from += size) {
    const part = messages.slice(from, from + size)
    for (;;) {
      const results = await publish(publisher, part).catch(() => [])
      if (results.length > 0 && results.every(({ status }) => status === 'accepted')) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}
