import type { IncomingMessage } from 'node:http'
import { propertyOf } from '@txbox/core/internal'
import { ByteCollector } from './byte-collector.ts'
import { hasJsonBody, type HttpRequest, type TakenRequest } from '../request/http-request.ts'
import { UNREAD } from '../request/request-fingerprint.ts'
import type { RequestRunner } from '../handle/request-runner.ts'

/** A request of Node, as Express and NestJS extend it. */
type NodeRequest = IncomingMessage & { body?: unknown; rawBody?: unknown; originalUrl?: string }

/**
 * Takes the body of a request: the bytes, if they are there or if nobody has read them, else what a parser has made of them. A body
 * that is read here becomes `request.body`: the value of JSON, else the bytes. No handler may get a body that was cut at the limit.
 */
export async function nodeRequest(
  request: NodeRequest,
  { methods, maxRequestBytes }: RequestRunner['settings'],
): Promise<TakenRequest> {
  const taken = {
    method: request.method ?? '',
    path: request.originalUrl ?? request.url ?? '',
    headers: request.headers,
    body: new Uint8Array(),
    route: routeOf(request),
    native: request,
  }
  if (!methods.has(taken.method)) return taken
  const { body, rawBody } = request
  for (const bytes of [rawBody, body]) {
    if (bytes instanceof Uint8Array) return { ...taken, body: bytes }
  }
  if (typeof body === 'string') return { ...taken, body: Buffer.from(body) }
  if (request.readableDidRead || request.readableEnded) {
    if (body === undefined && !hasBody(request)) return taken
    // A parser makes null of the JSON text null.
    return { ...taken, parsedBody: body === undefined ? UNREAD : body }
  }
  if (!hasBody(request)) return taken
  const bytes = await bytesOf(request, maxRequestBytes)
  const read = { ...taken, body: bytes, isTooLarge: bytes.byteLength > maxRequestBytes }
  if (!read.isTooLarge) request.body = parsedOf(read)
  return read
}

/** Waits for the end of the body, or for one byte more than the limit. The rest of a larger body is not kept. */
function bytesOf(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const collector = new ByteCollector(maxBytes)
  return new Promise((resolve, reject) => {
    request.on('data', (chunk: Buffer) => {
      if (!collector.add(chunk)) resolve(collector.bytes)
    })
    request.once('end', () => resolve(collector.bytes))
    request.once('error', reject)
  })
}

/** Returns whether a request of HTTP/1 has a body. A body of HTTP/2 needs no header. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/** Returns whether no handler can have taken the body as a stream, which a second call of the handler would find empty. */
export function hasNoUnreadBody(request: IncomingMessage): boolean {
  return request.readableDidRead || (request.httpVersionMajor < 2 && !hasBody(request))
}

function parsedOf(request: HttpRequest): unknown {
  if (!hasJsonBody(request)) return request.body
  try {
    return JSON.parse(Buffer.from(request.body).toString()) as unknown
  } catch {
    // The handler gets the bytes, and decides.
    return request.body
  }
}

function routeOf(request: NodeRequest): string | undefined {
  const path = propertyOf(propertyOf(request, 'route'), 'path')
  const base = propertyOf(request, 'baseUrl')
  return typeof path === 'string' ? `${typeof base === 'string' ? base : ''}${path}` : undefined
}
