import type { FastifyReply } from 'fastify'
import type { HttpResponse } from '../response/http-response.ts'
import type { Bridge } from './bridge.ts'
import { collectBody } from './collect-body.ts'
import { isResponse } from './stream-like.ts'

/** Lets a reply have the status and the headers of a `Response` of fetch, as Fastify does. @returns the body. */
export function unwrapped(reply: FastifyReply, payload: unknown): unknown {
  if (!isResponse(payload)) return payload
  reply.code(payload.status)
  // Each cookie is an entry of its own, and is added to the others.
  for (const [name, value] of payload.headers) reply.header(name, value)
  return payload.body
}

/**
 * Reads a stream that the handler sends. At `timeoutMs` the stream is given up.
 *
 * @returns `undefined` if the bridge has its answer before.
 */
export async function collectSent(
  bridge: Bridge,
  stream: unknown,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const signal = bridge.handled?.signal
  try {
    return await collectBody(stream as AsyncIterable<Uint8Array>, maxBytes, signal)
  } catch (error) {
    if (signal?.aborted === true) return undefined
    bridge.fail(error)
    await bridge.answered
    throw error
  }
}

/** Takes back the headers that the handler has set. */
export function replaceHeaders(
  reply: FastifyReply,
  headers: Readonly<Record<string, unknown>>,
  answer: HttpResponse,
): void {
  for (const name of Object.keys(reply.getHeaders())) reply.removeHeader(name)
  reply
    .code(answer.status)
    .headers({ ...headers } as Record<string, string>)
    .headers({ ...(answer.headers as Record<string, string>) })
}
