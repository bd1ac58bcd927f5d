import type { FastifyRequest } from 'fastify'
import { propertyOf } from '@txbox/core/internal'
import type { HttpRequest } from '../request/http-request.ts'
import { UNREAD } from '../request/request-fingerprint.ts'

/**
 * Takes a request of Fastify, also of NestJS over Fastify.
 *
 * @param recorded the bytes of the body, if they were recorded.
 */
export function requestOf(request: FastifyRequest, recorded?: Uint8Array): HttpRequest {
  const { method, originalUrl: path, headers, body } = request
  // NestJS keeps the bytes of a body with the option `rawBody`.
  const bytes = recorded ?? bytesOf(propertyOf(request, 'rawBody')) ?? bytesOf(body)
  const taken = { method, path, headers, native: request, route: request.routeOptions.url }
  if (bytes !== undefined)
    return { ...taken, body: bytes, ...(body === undefined ? {} : { parsedBody: body }) }
  if (body === undefined && headers['content-type'] === undefined) return { ...taken, body: new Uint8Array() }
  // A parser makes null of the JSON text null.
  return { ...taken, body: new Uint8Array(), parsedBody: body === undefined ? UNREAD : body }
}

function bytesOf(body: unknown): Uint8Array | undefined {
  return typeof body === 'string' ? Buffer.from(body) : body instanceof Uint8Array ? body : undefined
}

/** What Fastify sends for a body: it gives an empty buffer a media type, which the response did not have. */
export function sentBody(body: unknown): unknown {
  return body instanceof Uint8Array && body.byteLength === 0 ? undefined : body
}
