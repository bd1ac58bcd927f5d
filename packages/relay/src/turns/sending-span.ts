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
    const counts = new Map<string | undefined, number>()
    let error: unknown
    try {
      const results = await publish()
      for (const result of answersOf(results)) {
        if (result?.status === 'accepted') add(counts, undefined)
        else if (result?.status === 'rejected') {
          const reason = result.error ?? 'rejected'
          error ??= reason
          add(counts, errorTypeOf(reason))
        }
      }
      if (error !== undefined) handle.failed(error)
      return results
    } catch (thrown) {
      error = thrown ?? 'thrown'
      add(counts, errorTypeOf(error), messages.length)
      throw thrown
    } finally {
      recordCall(telemetry, publisher, { beganAt, counts, error })
    }
  })
}

function add(counts: Map<string | undefined, number>, errorType: string | undefined, count = 1): void {
  counts.set(errorType, (counts.get(errorType) ?? 0) + count)
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
      ...(system === 'rabbitmq' && topic !== undefined ? { [ATTRIBUTES.rabbitmqRoutingKey]: topic } : {}),
      ...(system === 'kafka' && only?.key !== undefined ? { [ATTRIBUTES.kafkaMessageKey]: only.key } : {}),
      ...(server === undefined ? {} : { [ATTRIBUTES.serverAddress]: server.address }),
      ...(server?.port === undefined ? {} : { [ATTRIBUTES.serverPort]: server.port }),
    },
  }
}

/** Records one call of the publisher, with the numbers of its messages by the type of their error, `undefined` if accepted. */
function recordCall(
  telemetry: Telemetry,
  publisher: Publisher,
  call: {
    readonly beganAt: number
    readonly counts: ReadonlyMap<string | undefined, number>
    readonly error: unknown
  },
): void {
  const { system } = publisher
  const attributes: Attributes = {
    ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
    [ATTRIBUTES.operationName]: 'send',
  }
  const withError = (errorType: string | undefined): Attributes =>
    errorType === undefined ? attributes : { ...attributes, [ATTRIBUTES.errorType]: errorType }
  const errorType = call.error === undefined ? undefined : errorTypeOf(call.error)
  const seconds = (performance.now() - call.beganAt) / 1000
  telemetry.record('messaging.client.operation.duration', seconds, withError(errorType))
  for (const [type, count] of call.counts) {
    telemetry.count('messaging.client.sent.messages', count, withError(type))
  }
}
