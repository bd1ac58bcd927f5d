import type { OutboxMessage, PublishResult, Publisher, SpanDescription, Telemetry } from '@txbox/core'
import { ATTRIBUTES, linksTo } from '@txbox/core/internal'

/** Runs one call of the publisher in a span of its own, which is linked to the contexts of the messages. */
export function inSendingSpan(
  telemetry: Telemetry,
  publisher: Publisher,
  messages: readonly OutboxMessage[],
  publish: () => Promise<readonly PublishResult[]>,
): Promise<readonly PublishResult[]> {
  return telemetry.span(describe(publisher, messages), async (tell) => {
    const results = await publish()
    // A third party's publisher may answer anything, which is found out later.
    const refused = Array.isArray(results)
      ? (results as readonly PublishResult[]).find((result) => result?.status === 'rejected')
      : undefined
    if (refused?.status === 'rejected') tell.failed(refused.error)
    return results
  })
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
