import { randomUUID } from 'node:crypto'
import { kafkaSource, type KafkaSourceOptions, type Source } from '@txbox/kafka'
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
