import type {
  Attributes,
  OutboxMessage,
  PublishResult,
  Publisher,
  SpanDescription,
  Telemetry,
} from '@txbox/core'
import { ATTRIBUTES, errorTypeOf, linksTo } from '@txbox/core/internal'

/** Runs one call of the publisher in a span of its own, which is linked to the contexts of the messages. */
export function inSendingSpan(
  telemetry: Telemetry,
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  publish: () => Promise<readonly PublishResult[]>,
): Promise<readonly PublishResult[]> {
  const beganAt = performance.now()
  return telemetry.span(describe(publisher, messages), async (handle) => {
    let accepted = 0
    let error: unknown
    try {
      const results = await publish()
      for (const result of answersOf(results)) {
        if (result?.status === 'accepted') accepted++
        else if (result?.status === 'rejected') error ??= result.error ?? 'rejected'
      }
      if (error !== undefined) handle.failed(error)
      return results
    } catch (thrown) {
      error = thrown ?? 'thrown'
      throw thrown
    } finally {
      recordCall(telemetry, publisher, { beganAt, accepted, error })
    }
  })
}

/** A third party's publisher may answer anything, which is found out later. */
function answersOf(results: unknown): readonly (PublishResult | undefined)[] {
  return Array.isArray(results) ? (results as readonly (PublishResult | undefined)[]) : []
}

/** A call of one topic has the topic in its name, and a call of one message has the ids of the message. */
function describe(publisher: Publisher, messages: readonly OutboxMessage[]): SpanDescription {
  const [first] = messages
  const topic = messages.every((message) => message.topic === first!.topic) ? first!.topic : undefined
  const only = messages.length === 1 ? first : undefined
  const { system, server } = publisher
  return {
    name: topic === undefined ? 'send' : `send ${topic}`,
    kind: 'client',
    detached: true,
    links: linksTo(messages),
    attributes: {
      ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
      [ATTRIBUTES.operationType]: 'send',
      [ATTRIBUTES.operationName]: 'send',
      [ATTRIBUTES.batchMessages]: messages.length,
      ...(topic === undefined ? {} : { [ATTRIBUTES.destination]: topic }),
      ...(only === undefined ? {} : { [ATTRIBUTES.messageId]: only.id }),
      ...(only?.correlationId === undefined ? {} : { [ATTRIBUTES.conversationId]: only.correlationId }),
      ...(server === undefined ? {} : { [ATTRIBUTES.serverAddress]: server.address }),
      ...(server?.port === undefined ? {} : { [ATTRIBUTES.serverPort]: server.port }),
    },
  }
}

/** Records one call of the publisher. */
function recordCall(
  telemetry: Telemetry,
  publisher: Publisher,
  call: { readonly beganAt: number; readonly accepted: number; readonly error: unknown },
): void {
  const { system } = publisher
  const attributes: Attributes = {
    ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
    [ATTRIBUTES.operationName]: 'send',
  }
  const failed =
    call.error === undefined ? attributes : { ...attributes, [ATTRIBUTES.errorType]: errorTypeOf(call.error) }
  telemetry.record('messaging.client.operation.duration', (performance.now() - call.beganAt) / 1000, failed)
  if (call.accepted > 0) telemetry.count('messaging.client.sent.messages', call.accepted, attributes)
}
