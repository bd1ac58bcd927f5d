import { randomUUID } from 'node:crypto'
import type { OutboxMessage, PublishResult, Publisher } from '@txbox/sqs'

/** A message as the relay passes it to a publisher. */
export function messageTo(topic: string, message: Partial<OutboxMessage> = {}): OutboxMessage {
  const payload = message.payload ?? Buffer.from('{"n":1}')
  return {
    id: randomUUID(),
    topic,
    contentType: 'application/json',
    headers: {},
    createdAt: new Date('2026-03-04T05:06:07.890Z'),
    attempt: 1,
    payload,
    text: () => Buffer.from(payload).toString(),
    json: <P>() => JSON.parse(Buffer.from(payload).toString()) as P,
    ...message,
  }
}

export async function published(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
): Promise<readonly PublishResult[]> {
  return publisher.publish(messages, { signal: new AbortController().signal })
}
