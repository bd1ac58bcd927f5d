import { linksTo } from './links.ts'
import { ATTRIBUTES } from './names.ts'
import type { SpanDescription } from './telemetry.ts'
import { traceContextOf } from './trace-context.ts'

/** How the span of one message is related to the trace context of the message. */
export type SpanParent = 'message' | 'link'

/** The consumer that handles messages. */
export interface Processing {
  readonly consumer: string
  /** The kind of broker. */
  readonly system?: string | undefined
  /** The queue or topic. */
  readonly destination?: string | undefined
  readonly parent: SpanParent
  /** See `SpanDescription`. */
  readonly detached: boolean
}

interface Handled {
  readonly id?: unknown
  readonly correlationId?: unknown
  readonly headers?: Readonly<Record<string, unknown>> | undefined
}

/** The span in which one message is handled: a child of the message's context, or linked to it. */
export function processingOne(message: Handled, how: Processing): SpanDescription {
  const context = traceContextOf(message.headers)
  const { id, correlationId } = message
  return {
    ...described(how),
    ...(context === undefined ? {} : how.parent === 'message' ? { parent: context } : { links: [context] }),
    attributes: {
      ...attributesOf(how),
      ...(typeof id === 'string' ? { [ATTRIBUTES.messageId]: id } : {}),
      ...(typeof correlationId === 'string' ? { [ATTRIBUTES.conversationId]: correlationId } : {}),
    },
  }
}

/** The span in which several messages are handled together, which is linked to their contexts. */
export function processingSeveral(messages: readonly Handled[], how: Processing): SpanDescription {
  return {
    ...described(how),
    links: linksTo(messages),
    attributes: { ...attributesOf(how), [ATTRIBUTES.batchMessages]: messages.length },
  }
}

function described({ consumer, detached }: Processing): Pick<SpanDescription, 'name' | 'kind' | 'detached'> {
  return { name: `process ${consumer}`, kind: 'consumer', detached }
}

function attributesOf({ consumer, system, destination }: Processing): SpanDescription['attributes'] {
  return {
    ...(system === undefined ? {} : { [ATTRIBUTES.system]: system }),
    [ATTRIBUTES.operationType]: 'process',
    [ATTRIBUTES.operationName]: 'process',
    [ATTRIBUTES.consumerGroup]: consumer,
    ...(destination === undefined ? {} : { [ATTRIBUTES.destination]: destination }),
  }
}

/** The messages that a consumer handles in a span, so that the inbox of the consumer does not begin a second span. */
const inSpans = new WeakSet<object>()

export function markInSpan(message: object): void {
  inSpans.add(message)
}

export function isInSpan(message: unknown): boolean {
  return typeof message === 'object' && message !== null && inSpans.has(message)
}
