import { InvalidMessageError } from '../errors/errors.ts'
import { oneLine } from '../text/one-line.ts'
import type { MessageIdentity } from './messages.ts'

/**
 * Attributes that do not become headers, because each is a field of the message, says nothing beside the fields, or is the ordering
 * key.
 */
const FIELDS: ReadonlySet<string> = new Set([
  ...['specversion', 'id', 'source', 'type', 'time', 'datacontenttype'],
  ...['correlationid', 'partitionkey'],
])

/** A name with another character is that of a header, such as `ce-nats-rollup`. */
const ATTRIBUTE_NAME = /^[a-z\d]+$/i

const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(?:\.(\d+))?(?:z|[+-]\d\d:\d\d)$/i
/** A `Date` holds milliseconds. */
const DIGITS_OF_A_DATE = 3

const QUOTED = /^"((?:[^"\\]|\\.)*)"$/s
const ENCODED_BYTES = /(?:%[\da-f]{2})+/gi
/** Characters that the type String of CloudEvents excludes: control characters, noncharacters and lone surrogates. */
const EXCLUDED = /[\p{Cc}\p{Noncharacter_Code_Point}\p{Surrogate}]/u

type Headers = Readonly<Record<string, string>>
type ReadIdentity = Omit<MessageIdentity, 'id'> & { readonly id?: string }

/** A CloudEvent in binary mode, in the headers of a message. */
export interface CloudEventInHeaders {
  /** The attributes by their names, without the prefix. */
  readonly attributes: ReadonlyMap<string, string>
  /** The headers that are no attributes. */
  readonly others: readonly (readonly [name: string, value: string])[]
}

export interface CloudEventReading {
  /** Whether the binding percent-encodes attributes, because its headers take nothing beyond ASCII. @default false */
  readonly percentEncoded?: boolean
}

/**
 * Reads the CloudEvent in binary mode in the headers of a message.
 *
 * @param prefixes the prefixes of attributes that the binding of the broker allows.
 * @returns undefined if the headers hold no event.
 * @throws {InvalidMessageError} when an attribute that is percent-encoded is no text of CloudEvents.
 */
export function cloudEventIn(
  headers: Headers,
  prefixes: readonly string[],
  { percentEncoded = false }: CloudEventReading = {},
): CloudEventInHeaders | undefined {
  const prefix = prefixes.find((each) => Object.hasOwn(headers, `${each}specversion`))
  if (prefix === undefined) return undefined
  const attributes = new Map<string, string>()
  const others: [string, string][] = []
  for (const [header, value] of Object.entries(headers)) {
    const name = header.startsWith(prefix) ? header.slice(prefix.length) : ''
    if (!ATTRIBUTE_NAME.test(name)) others.push([header, value])
    else attributes.set(name, percentEncoded ? decoded(header, value) : value)
  }
  return { attributes, others }
}

/**
 * Returns the identity of the message that has this event in its headers. Id, source, type and time of the event are those of the message
 * then; its correlation id counts if the message has none. All other attributes are headers without the prefix, unless the message has
 * such a header itself.
 */
export function identityOfCloudEvent<I extends ReadIdentity>(
  identity: I,
  { attributes, others }: CloudEventInHeaders,
): I {
  const own = new Set(others.map(([name]) => name))
  const extensions = [...attributes].filter(([name]) => !FIELDS.has(name) && !own.has(name))
  const textOf = (name: string): string | undefined => {
    const value = attributes.get(name)
    return value === '' ? undefined : value
  }
  const [id, source, type] = [textOf('id'), textOf('source'), textOf('type')]
  const correlationId = identity.correlationId ?? textOf('correlationid')
  const time = timeOf(textOf('time'))
  return {
    ...identity,
    ...(id !== undefined && { id }),
    ...(source !== undefined && { source }),
    ...(type !== undefined && { type }),
    ...(correlationId !== undefined && { correlationId }),
    ...(time !== undefined && { time }),
    headers: Object.fromEntries([...others, ...extensions]),
  }
}

/** Applies `identityOfCloudEvent` to the event in the headers. @returns the identity itself if the headers hold no event. */
export function withCloudEvent<I extends ReadIdentity>(identity: I, prefixes: readonly string[]): I {
  const event = cloudEventIn(identity.headers ?? {}, prefixes)
  return event === undefined ? identity : identityOfCloudEvent(identity, event)
}

/**
 * Decodes a value as the bindings for HTTP and NATS prescribe: quotes around it first, then the encoded bytes once. A percent sign without
 * two hexadecimal digits stays as it is, because some producers do not encode at all.
 */
function decoded(header: string, value: string): string {
  const unquoted = QUOTED.exec(value)?.[1]?.replaceAll(/\\(.)/gs, '$1') ?? value
  let text: string
  try {
    text = unquoted.replaceAll(ENCODED_BYTES, (bytes) => decodeURIComponent(bytes))
  } catch (cause) {
    throw refusal(header, 'encodes bytes that are no UTF-8', { cause })
  }
  if (EXCLUDED.test(text)) {
    throw refusal(header, 'has a character that CloudEvents exclude, such as a control character')
  }
  return text
}

function refusal(header: string, what: string, options?: ErrorOptions): InvalidMessageError {
  return new InvalidMessageError(
    `The CloudEvent cannot be read: its header '${oneLine(header, 100)}' ${what}. Make its producer percent-encode the text of the ` +
      'attribute once, in UTF-8.',
    options,
  )
}

/** A time with microseconds stays text, which keeps them. */
function timeOf(text: string | undefined): Date | string | undefined {
  const digits = text === undefined ? null : RFC_3339.exec(text)
  if (text === undefined || digits === null) return undefined
  const date = new Date(text.toUpperCase())
  if (Number.isNaN(date.getTime())) return undefined
  return (digits[1]?.length ?? 0) > DIGITS_OF_A_DATE ? text : date
}
