import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Bridge } from './bridge.ts'
import { collectSent, replaceHeaders } from './fastify-course.ts'
import type { HttpRequest } from '../request/http-request.ts'
import { UNREAD } from '../request/request-fingerprint.ts'
import { isStream } from './stream-like.ts'

/** NestJS keeps the bytes of a body with the option `rawBody`. */
export function requestOfReply(request: FastifyRequest & { readonly rawBody?: unknown }): HttpRequest {
  const { method, originalUrl: path, headers, rawBody, body } = request
  const taken = { method, path, headers, body: new Uint8Array(), route: request.routeOptions.url }
  if (rawBody instanceof Uint8Array) return { ...taken, body: rawBody }
  if (body instanceof Uint8Array) return { ...taken, body }
  if (typeof body === 'string') return { ...taken, body: Buffer.from(body) }
  if (body === undefined && headers['content-type'] === undefined) return taken
  return { ...taken, parsedBody: body ?? UNREAD }
}

/** Holds what NestJS sends, until the bridge has its answer. */
export function holdReply(reply: FastifyReply, bridge: Bridge, maxBytes: number): void {
  const send = reply.send.bind(reply)
  const headers = { ...reply.getHeaders() }
  let isSending = false
  const commit = async (payload: unknown): Promise<void> => {
    const isStored = bridge.handled?.key !== undefined
    const body = serialized(reply, payload)
    const sent = isStored && isStream(body) ? await collectSent(bridge, body, maxBytes) : body
    bridge.respond({
      status: reply.statusCode,
      headers: reply.getHeaders() as Record<string, string>,
      body: isStream(sent) ? '' : ((sent ?? '') as Uint8Array),
    })
    const answer = await bridge.answered
    if (answer !== undefined) replaceHeaders(reply, headers, answer)
    send(bodyOf(answer === undefined ? sent : answer.body))
  }
  // NestJS and Fastify wait for what `send` returns.
  reply.send = ((payload?: unknown) => {
    if (isSending) return reply
    isSending = true
    return commit(payload).then(
      () => reply,
      (error: unknown) => send(error),
    )
  }) as never
  void bridge.answered.then((answer) => {
    if (answer === undefined || isSending) return
    isSending = true
    replaceHeaders(reply, headers, answer)
    send(bodyOf(answer.body))
  })
}

/** As Fastify does it: objects become JSON, and each kind of body has its media type. */
function serialized(reply: FastifyReply, payload: unknown): unknown {
  if (payload === undefined || payload === null || isStream(payload)) return payload
  const isBytes = payload instanceof Uint8Array
  const isText = typeof payload === 'string'
  if (!reply.hasHeader('content-type')) {
    const other = isText ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8'
    reply.header('content-type', isBytes ? 'application/octet-stream' : other)
  }
  return isBytes ? payload : Buffer.from(isText ? payload : (reply.serialize(payload) as string))
}

/** Fastify gives an empty buffer a media type, which the response did not have. */
function bodyOf(body: unknown): unknown {
  return body instanceof Uint8Array && body.byteLength === 0 ? undefined : body
}
