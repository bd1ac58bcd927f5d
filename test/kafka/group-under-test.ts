import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import type { Delivery, OpenSource } from '@txbox/consumer'
import { kafkaSource, type KafkaSourceOptions, type Source } from '@txbox/kafka'
import { outboxMessage, publish } from '../support/subjects/publishing.ts'
import type { KafkaUnderTest } from './kafka-under-test.ts'

/** The shortest time that Kafka takes by default. */
export const SHORTEST_SESSION_MS = 6000

/** A source of one topic, in a group of its own. */
export function sourceOf(
  kafka: KafkaUnderTest,
  topic: string,
  options: Partial<KafkaSourceOptions> = {},
): Source {
  return kafkaSource({
    brokers: [kafka.address],
    topics: [topic],
    groupId: `group-${randomUUID().slice(0, 13)}`,
    sessionTimeoutMs: SHORTEST_SESSION_MS,
    ...options,
  })
}

export async function opened(
  source: Source,
  how: Partial<Parameters<Source['open']>[0]> = {},
): Promise<OpenSource> {
  const open = await source.open({ prefetch: 100, failed: () => undefined, ...how })
  onTestFinished(() => open.close())
  return open
}

export async function receive(open: OpenSource, count: number): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  const limit = AbortSignal.timeout(20_000)
  while (deliveries.length < count && !limit.aborted) {
    deliveries.push(...(await open.receive(count - deliveries.length, { signal: limit })))
  }
  return deliveries
}

/** What comes within this time. */
export async function receiveFor(open: OpenSource, ms: number): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  const limit = AbortSignal.timeout(ms)
  while (!limit.aborted) deliveries.push(...(await open.receive(100, { signal: limit })))
  return deliveries
}

export function ids(deliveries: readonly Delivery[]): string[] {
  return deliveries.map(({ message }) => message.id)
}

/** Publishes messages with these ids. */
export function send(
  kafka: KafkaUnderTest,
  topic: string,
  names: readonly string[],
  key?: string,
): Promise<unknown> {
  const messages = names.map((id) =>
    outboxMessage({ id, topic, payload: Buffer.from('{}'), ...(key === undefined ? {} : { key }) }),
  )
  return publish(kafka.publisher(), messages)
}
