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
  const topic = topicOf(messages)
  return telemetry.span(describe(publisher, messages, topic), async (handle) => {
    const counts: Counts = new Map()
    let error: unknown
    try {
      const results = await publish()
      const answers = answersOf(results)
      for (const [index, message] of messages.entries()) {
        const result = answers[index]
        if (result?.status === 'accepted') add(counts, message.topic, undefined)
        else if (result?.status === 'rejected') {
          const reason = result.error ?? 'rejected'
          error ??= reason
          add(counts, message.topic, errorTypeOf(reason))
        }
      }
      if (error !== undefined) handle.failed(error)
      return results
    } catch (thrown) {
      error = thrown ?? 'thrown'
      const errorType = errorTypeOf(error)
      for (const message of messages) add(counts, message.topic, errorType)
      throw thrown
    } finally {
      recordCall(telemetry, publisher, { beganAt, topic, counts, error })
    }
  })
}

/** The numbers of messages by their topic, and by the type of their error, `undefined` if accepted. */
type Counts = Map<string, Map<string | undefined, number>>

function add(counts: Counts, topic: string, errorType: string | undefined): void {
  let ofTopic = counts.get(topic)
  if (ofTopic === undefined) counts.set(topic, (ofTopic = new Map()))
  ofTopic.set(errorType, (ofTopic.get(errorType) ?? 0) + 1)
}

/** The topic of all messages of a call, if there is one. */
function topicOf(messages: readonly OutboxMessage[]): string | undefined {
  const [first] = messages
  return messages.every(({ topic }) => topic === first!.topic) ? first?.topic : undefined
}

/** A third party's publisher may answer anything, which is found out later. */
function answersOf(results: unknown): readonly (PublishResult | undefined)[] {
  return Array.isArray(results) ? (results as readonly (PublishResult | undefined)[]) : []
}

/** A call of one topic has the topic in its name, and a call of one message has the ids of the message. */
function describe(
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  topic: string | undefined,
): SpanDescription {
  const [first] = messages
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

/** Records one call of the publisher, and its messages. `topic` is that of all messages, if there is one. */
function recordCall(
  telemetry: Telemetry,
  publisher: Publisher,
  call: {
    readonly beganAt: number
    readonly topic: string | undefined
    readonly counts: Counts
    readonly error: unknown
  },
): void {
  const { system } = publisher
  const attributesOf = (topic: string | undefined, errorType: string | undefined): Attributes => ({
    ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
    [ATTRIBUTES.operationName]: 'send',
    ...(topic === undefined ? {} : { [ATTRIBUTES.destination]: topic }),
    ...(errorType === undefined ? {} : { [ATTRIBUTES.errorType]: errorType }),
  })
  const errorType = call.error === undefined ? undefined : errorTypeOf(call.error)
  const seconds = (performance.now() - call.beganAt) / 1000
  telemetry.record('messaging.client.operation.duration', seconds, attributesOf(call.topic, errorType))
  for (const [topic, ofTopic] of call.counts) {
    for (const [type, count] of ofTopic) {
      telemetry.count('messaging.client.sent.messages', count, attributesOf(topic, type))
    }
  }
}
