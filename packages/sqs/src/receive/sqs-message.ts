/** An attribute of a message as the AWS SDK receives it. */
export interface SqsAttribute {
  readonly DataType?: string | undefined
  readonly StringValue?: string | undefined
}

/** A message of SQS as the AWS SDK receives it, with `MessageAttributeNames: ['All']`. */
export interface SqsMessage {
  readonly MessageId?: string | undefined
  readonly Body?: string | undefined
  readonly MessageAttributes?: Readonly<Record<string, SqsAttribute>> | undefined
  /** The attributes that SQS itself sets, such as `SentTimestamp`. */
  readonly Attributes?: Readonly<Partial<Record<string, string>>> | undefined
}

/** A message of SQS as AWS Lambda passes it to a function, in `event.Records`. */
export interface SqsLambdaRecord {
  readonly messageId: string
  readonly body: string
  readonly messageAttributes: Readonly<
    Record<
      string,
      { readonly dataType?: string | undefined; readonly stringValue?: string | null | undefined }
    >
  >
  readonly attributes: object
}

/** Returns a message of Lambda as the AWS SDK would have received it. */
export function asSqsMessage(message: SqsMessage | SqsLambdaRecord): SqsMessage {
  if (!('messageAttributes' in message) || !('body' in message)) return message
  const { messageId, body, messageAttributes, attributes } = message
  const MessageAttributes = Object.fromEntries(
    Object.entries(messageAttributes).map(([name, { dataType, stringValue }]) => [
      name,
      { DataType: dataType, StringValue: stringValue ?? undefined },
    ]),
  )
  return {
    MessageId: messageId,
    Body: body,
    MessageAttributes,
    Attributes: attributes as Record<string, string>,
  }
}
