import { onTestFinished } from 'vitest'
import type { Delivery, OpenSource } from '@txbox/core'
import { sqsSource, type SqsSourceOptions } from '@txbox/sqs'
import type { useSqs } from './sqs-under-test.ts'

export const NEVER = new AbortController().signal

/** Returns a function that opens a source, which is closed when the test has finished. */
export function openerOf(sqs: ReturnType<typeof useSqs>) {
  return async (options: SqsSourceOptions, prefetch = 10): Promise<OpenSource> => {
    const source = sqsSource({ client: sqs.current.client, ...options })
    const open = await source.open({ prefetch, failed: () => undefined })
    onTestFinished(() => open.close())
    return open
  }
}

/** Receives exactly this many deliveries. */
export async function receive(open: OpenSource, count: number): Promise<Delivery[]> {
  const deliveries: Delivery[] = []
  while (deliveries.length < count) {
    deliveries.push(...(await open.receive(count - deliveries.length, { signal: NEVER })))
  }
  return deliveries
}

/** A message of the queue, with the message group of a FIFO queue. */
export function entry(id: string, group?: string, MessageBody = '{}') {
  return {
    MessageBody,
    MessageAttributes: { 'txbox-id': { DataType: 'String', StringValue: id } },
    ...(group !== undefined && { MessageGroupId: group, MessageDeduplicationId: id }),
  }
}

export function idsOf(deliveries: readonly Delivery[]): string[] {
  return deliveries.map(({ message }) => message.id)
}
