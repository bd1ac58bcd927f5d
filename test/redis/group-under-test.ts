import { onTestFinished } from 'vitest'
import type { Delivery, OpenSource } from '@txbox/consumer'
import { redisSource, type RedisSourceOptions } from '@txbox/redis'
import type { RedisUnderTest } from './redis-under-test.ts'
import { urlAt } from './streams-under-test.ts'

/** The group of all streams under test. */
export const GROUP = 'billing'
const NEVER = new AbortController().signal

/** A consumer of a group, and what it has reported. */
export interface Opened {
  readonly stream: string
  readonly open: OpenSource
  readonly warnings: string[]
  readonly failures: unknown[]
}

/** Opens a source with a short lease, which is closed after the test. */
export async function opened(
  redis: RedisUnderTest,
  options: Partial<RedisSourceOptions> & { readonly stream: string },
  prefetch = 10,
): Promise<Opened> {
  const [warnings, failures]: [string[], unknown[]] = [[], []]
  const source = redisSource({ url: urlAt(redis.address), group: GROUP, leaseMs: 1000, ...options })
  const open = await source.open({
    prefetch,
    failed: (error) => void failures.push(error),
    warned: (text) => void warnings.push(text),
  })
  onTestFinished(() => open.close())
  return { stream: options.stream, open, warnings, failures }
}

/** Adds entries with these ids. @returns the ids of the entries */
export async function add(
  redis: RedisUnderTest,
  stream: string,
  ids: readonly string[],
  ...fields: string[]
): Promise<string[]> {
  return Promise.all(
    ids.map(async (id) =>
      String(await redis.ask('XADD', stream, '*', 'id', id, ...fields, 'payload', '{"n":1}')),
    ),
  )
}

/** Receives exactly this many deliveries. */
export async function receive(open: OpenSource, count: number): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  while (deliveries.length < count) {
    deliveries.push(...(await open.receive(count - deliveries.length, { signal: NEVER })))
  }
  return deliveries
}

export const idsOf = (deliveries: readonly Delivery[]): string[] =>
  deliveries.map(({ message }) => message.id).toSorted()
