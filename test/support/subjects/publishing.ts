import { randomUUID } from 'node:crypto'
import type { OutboxMessage, PublishResult, Publisher } from '@txbox/relay'

/** A message as the relay passes it to a publisher. */
export function outboxMessage(message: Partial<OutboxMessage> & { topic: string }): OutboxMessage {
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

export function outboxMessages(topic: string, count: number): OutboxMessage[] {
  return Array.from({ length: count }, () => outboxMessage({ topic }))
}

/** A signal that is never aborted. */
export function signal(): AbortSignal {
  return new AbortController().signal
}

export async function publish(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  abort: AbortSignal = signal(),
): Promise<readonly PublishResult[]> {
  return await publisher.publish(messages, { signal: abort })
}

/** Each result as text: its status, and for a rejection whether another attempt is made. */
export function summary(results: readonly PublishResult[]): string[] {
  return results.map((result) => {
    if (result.status !== 'rejected') return result.status
    return result.retryable ? 'rejected for now' : 'rejected for good'
  })
}

/** The reason of a rejection. */
export function reason(result: PublishResult | undefined): string {
  return result?.status === 'rejected' && result.error instanceof Error ? result.error.message : ''
}

/** The error of a rejected promise. */
export async function failure(promise: Promise<unknown>): Promise<Error> {
  const outcome = await promise.then(
    (value) => new Error(`resolved with ${JSON.stringify(value)}`),
    (error: unknown) => error,
  )
  if (!(outcome instanceof Error)) throw new TypeError('What was thrown is no Error.')
  if (outcome.message.startsWith('resolved with')) throw outcome
  return outcome
}
