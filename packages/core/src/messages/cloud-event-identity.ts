import type { MessageIdentity } from './messages.ts'

/** Attributes that are a field of the message, or say nothing beside them. The key is no member of a received message. */
const FIELDS: ReadonlySet<string> = new Set([
  ...['specversion', 'id', 'source', 'type', 'time', 'datacontenttype'],
  ...['correlationid', 'partitionkey'],
])

const RFC_3339 = /^\d{4}-\d\d-\d\dt\d\d:\d\d:\d\d(?:\.(\d+))?(?:z|[+-]\d\d:\d\d)$/i
/** A `Date` has milliseconds. */
const DIGITS_OF_A_DATE = 3

/**
 * Reads the attributes of a CloudEvent in binary mode out of the headers of a message. Id, source, type and time of the event are those
 * of the message then; its correlation id counts if the message has none. All other attributes are headers without the prefix,
 * unless the message has such a header itself.
 *
 * @param prefixes the prefixes of attributes that the binding of the broker allows.
 * @returns the identity itself if the headers hold no event.
 */
export function withCloudEvent<I extends Omit<MessageIdentity, 'id'> & { readonly id?: string }>(
  identity: I,
  prefixes: readonly string[],
): I {
  const { headers = {} } = identity
  const prefix = prefixes.find((each) => Object.hasOwn(headers, `${each}specversion`))
  if (prefix === undefined) return identity
  const attributes = new Map<string, string>()
  const others: [string, string][] = []
  for (const [name, value] of Object.entries(headers)) {
    if (name.startsWith(prefix)) attributes.set(name.slice(prefix.length), value)
    else others.push([name, value])
  }
  const extensions = [...attributes].filter(([name]) => !FIELDS.has(name) && !Object.hasOwn(headers, name))
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

/** A time with microseconds stays text, which keeps them. */
function timeOf(text: string | undefined): Date | string | undefined {
  const digits = text === undefined ? null : RFC_3339.exec(text)
  if (text === undefined || digits === null) return undefined
  const date = new Date(text.toUpperCase())
  if (Number.isNaN(date.getTime())) return undefined
  return (digits[1]?.length ?? 0) > DIGITS_OF_A_DATE ? text : date
}
