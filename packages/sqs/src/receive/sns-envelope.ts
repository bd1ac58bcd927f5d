import type { SqsAttribute, SqsMessage } from './sqs-message.ts'

/** Most bodies are no envelope, and need not be parsed to see that. */
const MAY_BE_ENVELOPE = /^\s*\{[\s\S]*"Type"\s*:\s*"Notification"/

interface SnsEnvelope {
  readonly Type: 'Notification'
  readonly TopicArn: string
  readonly Message: string
  readonly Timestamp?: unknown
  readonly MessageAttributes?: unknown
}

/** Returns the message in the envelope of SNS, if this is one: SNS wraps messages for queues without raw message delivery. */
export function openedEnvelope(message: SqsMessage): SqsMessage {
  const envelope = envelopeIn(message.Body ?? '')
  if (envelope === undefined) return message
  const { Message, Timestamp, MessageAttributes } = envelope
  const sentAt = typeof Timestamp === 'string' ? Date.parse(Timestamp) : NaN
  return {
    ...message,
    Body: Message,
    MessageAttributes: attributesIn(MessageAttributes),
    ...(!Number.isNaN(sentAt) && { Attributes: { ...message.Attributes, SentTimestamp: String(sentAt) } }),
  }
}

function envelopeIn(body: string): SnsEnvelope | undefined {
  if (!MAY_BE_ENVELOPE.test(body)) return undefined
  let parsed: unknown
  try {
    parsed = JSON.parse(body)
  } catch {
    return undefined
  }
  const { Type, TopicArn, Message } = (parsed ?? {}) as Readonly<Record<string, unknown>>
  const isEnvelope = Type === 'Notification' && typeof TopicArn === 'string' && typeof Message === 'string'
  return isEnvelope ? (parsed as SnsEnvelope) : undefined
}

function attributesIn(given: unknown): Readonly<Record<string, SqsAttribute>> {
  if (typeof given !== 'object' || given === null) return {}
  const attributes = Object.entries(given as Readonly<Record<string, unknown>>).map(([name, attribute]) => {
    const { Type, Value } = (attribute ?? {}) as Readonly<Record<string, unknown>>
    const isText = typeof Type === 'string' && typeof Value === 'string'
    return [name, isText ? { DataType: Type, StringValue: Value } : {}] as const
  })
  return Object.fromEntries(attributes)
}
