import type { CloudEventsBinding, OutboxMessage, Publisher } from '@txbox/core'
import { OptionChecker, propertyOf } from '@txbox/core/internal'
import { isUriReference } from './uri-reference.ts'

const LONGEST_SOURCE = 2048
const MOST_EXTENSIONS = 50
const EXTENSION = /^[a-z\d]{1,20}$/

/** Names that an extension cannot have, because they are attributes of their own. */
const TAKEN: ReadonlySet<string> = new Set([
  ...['specversion', 'id', 'source', 'type', 'subject', 'time', 'datacontenttype', 'dataschema', 'data'],
  ...['partitionkey', 'correlationid', 'traceparent', 'tracestate', 'contentencoding'],
])

export interface CloudEventsOptions {
  /** Sends the events. Its results are those of the messages. */
  publisher: Publisher
  /**
   * The attribute `source`, which says who produces the events: a URI or a path, such as `https://shop.example/orders` or `/orders`, 1 to
   * 2048 characters.
   */
  source: string | ((message: OutboxMessage) => string)
  /**
   * `'binary'`: attributes are headers, and the payload is sent as it is. `'structured'`: attributes and payload are one JSON object.
   *
   * @default 'binary' if the publisher has a binding for it, and otherwise 'structured'
   */
  mode?: 'binary' | 'structured' | undefined
  /** The attribute `subject`. `undefined`: the event has none. @default none */
  subject?: ((message: OutboxMessage) => string | undefined) | undefined
  /** The names of headers that are extension attributes instead: 1 to 20 characters from a to z and 0 to 9 each. At most 50. @default none */
  extensions?: readonly string[] | undefined
}

export interface EventSettings {
  readonly sourceOf: (message: OutboxMessage) => unknown
  readonly subjectOf: (message: OutboxMessage) => unknown
  readonly extensions: ReadonlySet<string>
  /** `undefined`: structured mode. */
  readonly binding: CloudEventsBinding | undefined
}

/** @throws {InvalidOptionError} for a wrong option. */
export function cloudEventsOptions(options: CloudEventsOptions): EventSettings {
  const check = new OptionChecker('cloudEvents', options).known(
    ...['publisher', 'source', 'mode', 'subject', 'extensions'],
  )
  const { publisher, source } = options
  if (typeof propertyOf(publisher, 'publish') !== 'function') throw check.wrong('publisher', 'a Publisher')
  const expected = `a URI reference of 1 to ${LONGEST_SOURCE} characters, such as '/orders', or a function that returns one`
  if (typeof source !== 'function' && !isSource(source)) throw check.wrong('source', expected)
  const binding = publisher.cloudEvents
  const mode = check.oneOf('mode', ['binary', 'structured'], binding === undefined ? 'structured' : 'binary')
  if (mode === 'binary' && binding === undefined) {
    throw check.wrong('mode', "'structured', as this publisher's broker has no binding for binary mode")
  }
  const names = `at most ${MOST_EXTENSIONS} names of a to z and 0 to 9, 1 to 20 characters each, which are no attributes already`
  const extensions = check.list('extensions', isExtension, names)
  if (extensions.length > MOST_EXTENSIONS) throw check.wrong('extensions', names)
  return {
    sourceOf: typeof source === 'function' ? source : () => source,
    subjectOf: check.callback<(message: OutboxMessage) => unknown>('subject') ?? (() => undefined),
    extensions: new Set(extensions),
    binding: mode === 'binary' ? binding : undefined,
  }
}

export function isSource(value: unknown): value is string {
  return typeof value === 'string' && value.length <= LONGEST_SOURCE && isUriReference(value)
}

function isExtension(value: unknown): value is string {
  return typeof value === 'string' && EXTENSION.test(value) && !TAKEN.has(value)
}
