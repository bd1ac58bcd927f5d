import { InvalidOptionError } from '@txbox/core'
import { nameOf, propertyOf } from '@txbox/core/internal'
import { InvalidSignatureError } from './invalid-signature-error.ts'

/** Headers as Node.js, the Fetch API or a serverless platform has them. The case of names makes no difference. */
export type WebhookHeaders = Readonly<Record<string, string | readonly string[] | undefined>> | FetchHeaders

/** The part of the class `Headers` that is used. */
export interface FetchHeaders {
  get(name: string): string | null
  forEach(callback: (value: string, name: string) => void): void
}

/** A request as it was received, with the bytes of its body: a signature covers the bytes, and not what was parsed from them. */
export interface WebhookRequest {
  readonly headers: WebhookHeaders
  /** The raw body. A parsed body or a text is refused. */
  readonly body: Uint8Array
}

/** The request with names of headers in lower case. A header that was sent twice has two values. */
export interface ReadRequest {
  readonly headers: ReadonlyMap<string, readonly string[]>
  readonly body: Uint8Array
}

const MOUNT =
  "Pass the bytes of the body, before any parser: in Express mount express.raw({ type: '*/*' }) on the route, before express.json(); " +
  'in Fastify add a content type parser with parseAs: "buffer" in a plugin of the route; in NestJS use rawBody: true and request.rawBody; ' +
  'with the Fetch API (Hono, Next.js) use new Uint8Array(await request.arrayBuffer()).'

/** @throws {InvalidOptionError} when the request has no headers, or its body was parsed before. */
export function readRequest(where: string, request: WebhookRequest): ReadRequest {
  const headers = propertyOf(request, 'headers')
  if (typeof headers !== 'object' || headers === null) {
    throw new InvalidOptionError(
      `${where}: expected a request with headers and a body, not ${nameOf(request)} with the headers ${nameOf(headers)}.`,
    )
  }
  const body = propertyOf(request, 'body')
  // A Uint8Array of another realm, such as a test runner's, is none for `instanceof`.
  if (Object.prototype.toString.call(body) !== '[object Uint8Array]') {
    throw new InvalidOptionError(
      `${where}: the body of the webhook must be a Uint8Array, not ${nameOf(body)}. ${MOUNT}`,
    )
  }
  return { headers: headersOf(headers), body: body as Uint8Array }
}

function headersOf(headers: object): Map<string, readonly string[]> {
  const found = new Map<string, readonly string[]>()
  const add = (name: string, value: unknown): void => {
    const values = (Array.isArray(value) ? value : [value]).filter((each) => typeof each === 'string')
    const lower = name.toLowerCase()
    if (values.length > 0) found.set(lower, [...(found.get(lower) ?? []), ...values])
  }
  if (isFetchHeaders(headers)) headers.forEach((value, name) => add(name, value))
  else for (const [name, value] of Object.entries(headers)) add(name, value)
  return found
}

function isFetchHeaders(headers: object): headers is FetchHeaders {
  return (
    typeof propertyOf(headers, 'get') === 'function' && typeof propertyOf(headers, 'forEach') === 'function'
  )
}

/** The value of a header; `undefined` if it is missing or empty. Of a header that was sent twice, the values are joined. */
export function headerOf({ headers }: ReadRequest, name: string): string | undefined {
  const value = headers.get(name)?.join(', ')
  return value === '' ? undefined : value
}

/**
 * The value of a header that a signature needs.
 *
 * @throws {InvalidSignatureError} when the header is missing, empty or was sent twice.
 */
export function signedHeader({ headers }: ReadRequest, name: string): string {
  const values = headers.get(name) ?? []
  if (values.length > 1)
    throw new InvalidSignatureError(`The webhook has the header '${name}' more than once.`)
  const [value] = values
  if (value !== undefined && value.trim() !== '') return value
  throw new InvalidSignatureError(
    value === undefined ? `The webhook has no header '${name}'.` : `The webhook's header '${name}' is empty.`,
  )
}
