import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { OutboxMessage, PublishOptions, PublishResult, Publisher } from '@txbox/core'
import { reasonOf } from '@txbox/core/internal'
import type { ArrivedMessage } from './publisher-under-test.ts'

/** The payload of a large message, unless the broker takes no more than less. */
const LARGE_BYTES = 1_000_000

/** @returns the size of a large payload that is accepted. */
export function largeBytes(tooLarge: number | undefined): number {
  return tooLarge === undefined ? LARGE_BYTES : Math.min(LARGE_BYTES, tooLarge - 1)
}

/** A message as the relay passes it to a publisher. */
export function outboxMessage(message: Partial<OutboxMessage> & { readonly topic: string }): OutboxMessage {
  const payload = message.payload ?? Buffer.from('{"n":1}')
  const text = (): string => new TextDecoder('utf-8', { fatal: true }).decode(payload)
  return {
    id: randomUUID(),
    contentType: 'application/json',
    headers: {},
    createdAt: new Date('2026-03-04T05:06:07.890Z'),
    attempt: 1,
    ...message,
    payload,
    text,
    json: <P>() => JSON.parse(text()) as P,
  }
}

/** Messages of this topic, each with a key of its own. */
export function messagesOf(topic: string, count: number, prefix = 'key'): OutboxMessage[] {
  return Array.from({ length: count }, (_, n) => outboxMessage({ topic, key: `${prefix} ${n}` }))
}

export async function publish(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  signal: AbortSignal = new AbortController().signal,
  answered?: PublishOptions['answered'],
): Promise<readonly PublishResult[]> {
  return await publisher.publish(messages, { signal, ...(answered !== undefined && { answered }) })
}

/** Publishes the messages, and returns the results that are known, also those of a call that throws. */
export async function answersOf(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  signal: AbortSignal = new AbortController().signal,
): Promise<ReadonlyMap<OutboxMessage, PublishResult>> {
  const answers = new Map<OutboxMessage, PublishResult>()
  const unknown: number[] = []
  const answered = (index: number, result: PublishResult): void => {
    const message = messages[index]
    if (message === undefined) unknown.push(index)
    // The first result of a message counts.
    else if (!answers.has(message)) answers.set(message, result)
  }
  const results = await publish(publisher, messages, signal, answered).catch(() => [])
  for (const [index, result] of results.entries()) answered(index, result)
  assert.deepEqual(unknown, [], 'results of messages that were not in the call')
  return answers
}

/** The messages that were accepted. */
export function acceptedOf(answers: ReadonlyMap<OutboxMessage, PublishResult>): OutboxMessage[] {
  return [...answers].filter(([, { status }]) => status === 'accepted').map(([message]) => message)
}

/** Asserts that these messages are among those that arrived. */
export function haveArrived(
  messages: readonly OutboxMessage[],
  arrived: readonly { readonly id: string }[],
): void {
  const there = new Set(idsOf(arrived))
  assert.deepEqual(
    idsOf(messages).filter((id) => !there.has(id)),
    [],
  )
}

/** Each result as text: its status, and for a rejection whether another attempt is made. */
export function summary(results: readonly PublishResult[]): string[] {
  return results.map((result) => {
    if (result.status !== 'rejected') return result.status
    return result.retryable ? 'rejected for now' : 'rejected for good'
  })
}

/** Publishes the messages, and asserts that each is accepted. */
export async function publishAll(publisher: Publisher, messages: readonly OutboxMessage[]): Promise<void> {
  assert.deepEqual(
    summary(await publish(publisher, messages)),
    messages.map(() => 'accepted'),
  )
}

/** The reason of a rejection. */
export function reasonIn(result: PublishResult | undefined): string {
  return result?.status === 'rejected' ? reasonOf(result.error) : ''
}

export function idsOf(messages: readonly { readonly id: string }[]): string[] {
  return messages.map(({ id }) => id)
}

/** Asserts that exactly these messages arrived, each once, in any order. */
export function sameIds(
  arrived: readonly { readonly id: string }[],
  sent: readonly { readonly id: string }[],
): void {
  assert.deepEqual(idsOf(arrived).toSorted(), idsOf(sent).toSorted())
}

/** The bytes of each message, and how often it arrived. */
export function bytesById(messages: readonly ArrivedMessage[]): Map<string, string[]> {
  const found = new Map<string, string[]>()
  for (const { id, payload } of messages) {
    found.set(id, [...(found.get(id) ?? []), Buffer.from(payload).toString('base64')])
  }
  return new Map([...found].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** The ids of the messages of each key, in their order. */
export function idsByKey(messages: readonly OutboxMessage[]): string[][] {
  const keys = new Map<string, string[]>()
  for (const { id, key } of messages) if (key !== undefined) keys.set(key, [...(keys.get(key) ?? []), id])
  return [...keys.values()]
}
