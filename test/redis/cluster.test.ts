import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Cluster } from 'ioredis'
import { createCluster } from 'redis'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import {
  DedupStoreUnavailableError,
  redisDedup,
  type RedisClient,
  type RedisStreamsClient,
} from '@txbox/redis'
import { until } from '../support/worlds/until.ts'
import { messageOf, publish, publisherOf, StreamLog } from './streams-under-test.ts'
import { uniqueName } from './unique-name.ts'
import { clientsOfTier, RedisUnderTest, tokenOf, type ClientLibrary } from './redis-under-test.ts'

const SLOTS = 16_384
const nodes = Array.from(
  { length: 3 },
  () => new RedisUnderTest(['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no']),
)

/** Waits until every node knows that all slots are served. */
function whole(): Promise<void> {
  return until(
    async () => {
      const states = await Promise.all(nodes.map((node) => node.ask('CLUSTER', 'INFO')))
      return states.every((state) => /cluster_state:ok[^]*cluster_slots_ok:16384/.test(String(state)))
    },
    () => 'the cluster has all slots',
    20_000,
  )
}

beforeAll(async () => {
  for (const node of nodes) await node.start()
  for (const [n, node] of nodes.entries()) {
    const [from, to] = [n, n + 1].map((part) => Math.floor((SLOTS * part) / nodes.length))
    await node.ask('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to! - 1))
    await node.ask('CLUSTER', 'MEET', '127.0.0.1', String(nodes[0]!.address.port), String(nodes[0]!.busPort))
  }
  await whole()
}, 60_000)
afterAll(async () => {
  for (const node of nodes) await node.stop()
})

/** A connected client of the cluster, which is closed after the test. */
async function clusterClient(
  library: ClientLibrary,
  options: { enableOfflineQueue?: boolean } = {},
): Promise<RedisClient & RedisStreamsClient> {
  const { host, port } = nodes[0]!.address
  if (library === 'ioredis') {
    const client = new Cluster([{ host, port }], {
      clusterRetryStrategy: () => 20,
      ...options,
    })
    client.on('error', () => undefined)
    onTestFinished(() => client.disconnect())
    if (options.enableOfflineQueue === false) await once(client, 'ready')
    return client
  }
  const client = createCluster({ rootNodes: [{ socket: { host, port } }] })
  client.on('error', () => undefined)
  onTestFinished(() => client.destroy())
  await client.connect()
  return client
}

describe.for(clientsOfTier('node-redis'))('a cluster, %s', (library) => {
  test('R2 R3 R5 R9 a claim is one key, on whichever server: of N calls of begin one wins, and a completed claim is done', async () => {
    const stores = await Promise.all(
      [1, 2].map(async () => redisDedup({ client: await clusterClient(library) })),
    )
    const before = await Promise.all(nodes.map(async (node) => (await node.keys()).length))
    for (let n = 0; n < 60; n += 1) {
      const claim = { consumer: 'orders', key: randomUUID(), leaseMs: 30_000 }
      const results = await Promise.all([0, 1, 0, 1].map((store) => stores[store]!.begin(claim)))
      expect(results.map(({ status }) => status).toSorted()).toEqual([
        ...['in-flight', 'in-flight', 'in-flight', 'won'],
      ])
      const token = tokenOf(results.find(({ status }) => status === 'won')!)
      expect(await stores[0]!.extend(token)).toBe('extended')
      expect(await stores[1]!.complete(token)).toBe('completed')
      expect(await stores[0]!.begin(claim)).toMatchObject({ status: 'done' })
      // Each node has forgotten the scripts, in the middle.
      if (n === 30) for (const node of nodes) await node.ask('SCRIPT', 'FLUSH')
    }
    const grown = await Promise.all(nodes.map(async (node, n) => (await node.keys()).length - before[n]!))
    expect(grown.reduce((a, b) => a + b)).toBe(60)
    expect(grown.every((keys) => keys > 0)).toBe(true)
  })

  test('redisPublisher sends each message to the server of its stream', async () => {
    const client = await clusterClient(library, { enableOfflineQueue: false })
    const publisher = publisherOf({ client })
    await publisher.check!({ signal: new AbortController().signal })
    const topics = Array.from({ length: 30 }, () => uniqueName())
    const messages = topics.flatMap((topic) => [1, 2].map(() => messageOf({ topic, key: topic })))
    expect(await publish(publisher, messages)).toEqual(messages.map(() => ({ status: 'accepted' })))
    const stored = await Promise.all(nodes.map((node) => node.keys()))
    expect(stored.flat()).toEqual(expect.arrayContaining(topics))
    for (const [n, node] of nodes.entries()) {
      for (const topic of topics.filter((each) => stored[n]!.includes(each))) {
        const expected = messages.filter((each) => each.topic === topic).map(({ id }) => id)
        expect(await new StreamLog(node, topic).ids()).toEqual(expected)
      }
    }
  })

  test('R1 the store warns if one server of a cluster may evict', async () => {
    const dedup = redisDedup({ client: await clusterClient(library) })
    await dedup.begin({ consumer: 'orders', key: randomUUID() })
    expect(await dedup.warning()).toBeUndefined()
    const last = nodes.at(-1)!
    await last.ask('CONFIG', 'SET', 'maxmemory-policy', 'volatile-lru')
    onTestFinished(async () => void (await last.ask('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')))
    expect(await dedup.warning()).toContain('maxmemory-policy volatile-lru')
  })

  test('R7 while one server is down its claims are unavailable, and claims on other servers work', async () => {
    const dedup = redisDedup({ client: await clusterClient(library) })
    const one = nodes[1]!
    const claims = Array.from({ length: 30 }, () => ({ consumer: 'orders', key: randomUUID() }))
    for (const claim of claims) await dedup.complete(tokenOf(await dedup.begin(claim)))
    await one.kill()
    const results = await Promise.all(
      claims.map((claim) =>
        dedup.begin(claim).then(
          ({ status }) => status,
          (error: unknown) => error,
        ),
      ),
    )
    const failures = results.filter((result) => result instanceof Error)
    expect(failures.length).toBeGreaterThan(0)
    for (const failure of failures) expect(failure).toBeInstanceOf(DedupStoreUnavailableError)
    const answered = results.filter((result) => !(result instanceof Error))
    expect(answered.length).toBeGreaterThan(0)
    expect(new Set(answered)).toEqual(new Set(['done']))
    await one.restart()
    await whole()
    for (let n = 0; n < 30; n += 1) {
      await expect
        .poll(() => dedup.begin({ consumer: 'orders', key: randomUUID() }).catch(String), { timeout: 20_000 })
        .toMatchObject({ status: 'won' })
    }
  })
})
