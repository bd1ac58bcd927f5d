import type { FastifyReply } from 'fastify'
import { isStream, isResponse } from './stream-like.ts'
import type { Bridge } from './bridge.ts'
import { collectBody, type ByteCollector } from './byte-collector.ts'
import type { HttpResponse } from '../response/http-response.ts'

/** The state that the Fastify hooks of one request share. */
export interface Course {
  /** Absent if the bytes of the body were not read here. */
  readonly body?: ByteCollector
  bridge?: Bridge
  /** The headers that were set before the handler. */
  headers?: Readonly<Record<string, unknown>>
  /** The handler has sent its response. */
  isSending: boolean
  /** It is decided what is sent: later responses of the handler are not sent. */
  isDecided: boolean
}

/** Lets errors that the handler sends roll back, and answers instead of a handler that takes too long. */
export function watchSends(reply: FastifyReply, course: Course, bridge: Bridge): void {
  const send = reply.send.bind(reply)
  reply.send = (payload?: unknown) => {
    if (course.isDecided && !course.isSending) return reply
    if (payload instanceof Error) bridge.fail(payload)
    return send(payload)
  }
  void bridge.answered.then((answer) => {
    if (answer === undefined || course.isSending) return
    course.isDecided = true
    replaceHeaders(reply, course.headers, answer)
    send(answer.body)
  })
}

/** Commits before the first byte is sent. @returns what is sent. */
export async function sendThroughBridge(
  course: Course | undefined,
  reply: FastifyReply,
  payload: unknown,
  maxBytes: number,
): Promise<unknown> {
  const bridge = course?.bridge
  if (course === undefined || bridge?.handled === undefined || course.isDecided) return payload
  course.isSending = true
  const isStored = bridge.handled.key !== undefined
  const body = isStored && isStream(payload) ? await collectSent(bridge, payload, maxBytes) : payload
  bridge.respond({
    status: isResponse(payload) ? payload.status : reply.statusCode,
    headers: headersOf(reply, payload),
    body: isStream(body) ? '' : ((body ?? '') as Uint8Array),
  })
  const answer = await bridge.answered
  course.isDecided = true
  if (answer !== undefined) {
    replaceHeaders(reply, course.headers, answer)
    return answer.body
  }
  if (isStored && isResponse(payload)) reply.code(payload.status).headers(headersOf(reply, payload))
  return body
}

/** Reads a stream that the handler sends; `undefined` if the bridge has its answer before. */
export async function collectSent(
  bridge: Bridge,
  payload: unknown,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const stream = isResponse(payload) ? (payload.body ?? []) : payload
  const reading = collectBody(stream as AsyncIterable<Uint8Array>, maxBytes)
  try {
    return await Promise.race([reading, bridge.answered.then(() => undefined)])
  } catch (error) {
    bridge.fail(error)
    await bridge.answered
    throw error
  }
}

function headersOf(reply: FastifyReply, payload: unknown): Record<string, string> {
  const own = isResponse(payload) ? Object.fromEntries(payload.headers) : {}
  return { ...(reply.getHeaders() as Record<string, string>), ...own }
}

/** Takes back the headers that the handler has set. */
export function replaceHeaders(reply: FastifyReply, headers: Course['headers'], answer: HttpResponse): void {
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
  reply
    .code(answer.status)
    .headers({ ...headers } as Record<string, string>)
    .headers({ ...(answer.headers as Record<string, string>) })
}
