import { InvalidMessageError, type MessageIdentity } from '@txbox/core'
import { oneLine } from '@txbox/core/internal'
import { payloadOf } from '../publish/message-body.ts'
import { WIRE_ATTRIBUTES } from '../publish/outgoing-message.ts'
import { openedEnvelope } from './sns-envelope.ts'
import type { SqsMessage } from './sqs-message.ts'

/** A date and a time in RFC 3339. */
const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(\.\d+)?(z|[+-]\d\d:\d\d)$/i

const FIELDS: ReadonlySet<string> = new Set(Object.values(WIRE_ATTRIBUTES))

/** A message as it was received, apart from the value of its payload. */
export interface ReceivedFields {
  /** Without the id, which may be missing. */
  readonly identity: Omit<MessageIdentity, 'id'>
  readonly id: string | undefined
  readonly key: string | undefined
  readonly contentType: string | undefined
  readonly contentEncoding: string | undefined
  readonly body: string
  /** How the payload is written in the body. */
  readonly encoding: string | undefined
  /** The reason for which the message cannot be read as it was sent; `undefined` if it can. */
  readonly problem: InvalidMessageError | undefined
}

/** Reads a message of SQS, also in an envelope of SNS. Never throws. */
export function receivedFields(received: SqsMessage): ReceivedFields {
  const isOurs =
    textIn(received, WIRE_ATTRIBUTES.id) !== undefined ||
    textIn(received, WIRE_ATTRIBUTES.fields) !== undefined
  const message = isOurs ? received : openedEnvelope(received)
  const attributes = textsOf(message)
  const fields = attributes.get(WIRE_ATTRIBUTES.fields)
  const moved = fields === undefined ? {} : textsInJson(fields)
  const fieldOf = (name: string): string | undefined =>
    (moved !== undefined && Object.hasOwn(moved, name) ? moved[name] : undefined) ?? attributes.get(name)
  const id = fieldOf(WIRE_ATTRIBUTES.id)
  const json = id === undefined ? undefined : attributes.get(WIRE_ATTRIBUTES.headers)
  const others = json === undefined ? {} : textsInJson(json)
  const type = fieldOf(WIRE_ATTRIBUTES.type)
  const correlationId = fieldOf(WIRE_ATTRIBUTES.correlationId)
  const time = timeOf(fieldOf(WIRE_ATTRIBUTES.time)) ?? sentTimeOf(message)
  return {
    identity: {
      headers: headersOf(attributes, others ?? {}, json === undefined),
      ...(type !== undefined && { type }),
      ...(correlationId !== undefined && { correlationId }),
      ...(time !== undefined && { time }),
    },
    id: id === '' ? undefined : id,
    key: fieldOf(WIRE_ATTRIBUTES.key),
    contentType: fieldOf(WIRE_ATTRIBUTES.contentType),
    contentEncoding: fieldOf(WIRE_ATTRIBUTES.contentEncoding),
    body: message.Body ?? '',
    encoding: fieldOf(WIRE_ATTRIBUTES.encoding),
    problem:
      moved === undefined || others === undefined
        ? new InvalidMessageError(
            `Message ${oneLine(id ?? 'without an id')} has an attribute '${moved === undefined ? WIRE_ATTRIBUTES.fields : WIRE_ATTRIBUTES.headers}' ` +
              'that is no JSON object of texts.',
          )
        : undefined,
  }
}

/** @throws {InvalidMessageError} when the body is not what its encoding says. */
export function bytesOf({ id, body, encoding }: ReceivedFields): Uint8Array {
  const bytes = payloadOf(body, encoding)
  if (bytes !== undefined) return bytes
  throw new InvalidMessageError(
    `Message ${oneLine(id ?? 'without an id')} has the attribute '${WIRE_ATTRIBUTES.encoding}' with the value ` +
      `'${oneLine(encoding ?? '', 40)}', and its body is not that.`,
  )
}

function headersOf(
  attributes: ReadonlyMap<string, string>,
  others: Readonly<Record<string, string>>,
  isHeadersFree: boolean,
): Readonly<Record<string, string>> {
  const own = [...attributes].filter(
    ([name]) => !FIELDS.has(name) || (isHeadersFree && name === WIRE_ATTRIBUTES.headers),
  )
  return Object.fromEntries([...Object.entries(others), ...own])
}

function textIn({ MessageAttributes }: SqsMessage, name: string): string | undefined {
  const value: unknown = MessageAttributes?.[name]?.StringValue
  return typeof value === 'string' ? value : undefined
}

function textsOf(message: SqsMessage): ReadonlyMap<string, string> {
  const names = Object.keys(message.MessageAttributes ?? {})
  return new Map(
    names.flatMap((name) => {
      const text = textIn(message, name)
      return text === undefined ? [] : [[name, text] as const]
    }),
  )
}

/** @returns `undefined` for anything but an object of texts. */
function textsInJson(json: string): Readonly<Record<string, string>> | undefined {
  let parsed: unknown
  try {
    parsed = JSON.parse(json)
  } catch {
    return undefined
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return undefined
  const isOfTexts = Object.values(parsed).every((value) => typeof value === 'string')
  return isOfTexts ? (parsed as Record<string, string>) : undefined
}

function timeOf(text: string | undefined): Date | undefined {
  return text !== undefined && RFC_3339.test(text) ? validDate(Date.parse(text.toUpperCase())) : undefined
}

function sentTimeOf({ Attributes }: SqsMessage): Date | undefined {
  const sentAt = Attributes?.['SentTimestamp']
  return sentAt !== undefined && /^\d+$/.test(sentAt) ? validDate(Number(sentAt)) : undefined
}

function validDate(ms: number): Date | undefined {
  const date = new Date(ms)
  return Number.isNaN(date.getTime()) ? undefined : date
}
