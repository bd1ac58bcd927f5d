import { readFile } from 'node:fs/promises'
import type { OutboxMessage, Publisher } from '@txbox/relay'
import { UsageError } from '../failure.ts'
import { forwarding } from './forwarding.ts'

const LONGEST_TOPIC = 255
const ALL_OTHERS = '*'

/**
 * Reads the file of `--topic-map`: a JSON object whose members are topics, each with the topic that stands in for it. `*` is for all other
 * topics; without it, they stay as they are.
 */
export async function readTopicMap(file: string): Promise<ReadonlyMap<string, string>> {
  const expected = 'a JSON object such as {"order.paid": "orders", "*": "events"}'
  let map: unknown
  try {
    map = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    throw new UsageError(
      code === undefined
        ? `the file of --topic-map is not JSON; expected ${expected}`
        : `the file of --topic-map cannot be read: ${code}`,
    )
  }
  if (typeof map !== 'object' || map === null || Array.isArray(map) || !Object.values(map).every(isTopic)) {
    throw new UsageError(
      `the file of --topic-map must be ${expected}; topics are texts of 1 to ${LONGEST_TOPIC} characters`,
    )
  }
  return new Map(Object.entries(map as Readonly<Record<string, string>>))
}

function isTopic(value: unknown): boolean {
  return typeof value === 'string' && value.length > 0 && value.length <= LONGEST_TOPIC
}

/** Gives messages other topics before they are published. */
export function withTopicMap(publisher: Publisher, map: ReadonlyMap<string, string>): Publisher {
  const others = map.get(ALL_OTHERS)
  return forwarding(publisher, {
    publish: (messages, options) =>
      publisher.publish(
        messages.map((message) => withTopic(message, map.get(message.topic) ?? others ?? message.topic)),
        options,
      ),
  })
}

function withTopic(message: OutboxMessage, topic: string): OutboxMessage {
  if (topic === message.topic) return message
  return { ...message, topic, text: () => message.text(), json: <P>() => message.json<P>() }
}
