import type { FastifyReply } from 'fastify'
import { PassThrough, Readable, pipeline } from 'node:stream'
import type { HttpResponse } from '../response/http-response.ts'
import type { Bridge } from './bridge.ts'
import { collectBody, discard } from './collect-body.ts'
import { isResponse, isStream } from './stream-like.ts'

/** Lets a reply have the status and the headers of a `Response` of fetch, as Fastify does. */
export function unwrap(reply: FastifyReply, payload: unknown): void {
  if (!isResponse(payload)) return
  reply.code(payload.status)
  // Each cookie is an entry of its own, and is added to the others.
  for (const [name, value] of payload.headers) reply.header(name, value)
}

/** A payload that a handler has sent, and after which the handler may go on. */
export interface SentPayload {
  /**
   * Returns the payload to send, after the handler has ended: the bytes of a stream, if the response is stored. The stream is given
   * up at `timeoutMs`.
   *
   * @returns `undefined` if the bridge has its answer before.
   */
  taken(): Promise<unknown>
  discard(): void
}

/**
 * Takes what a handler sends. A stream is read while the handler runs, because the handler may wait until it has filled the stream: up
 * to `maxBytes` of a response that is not stored.
 */
export function takeSent(bridge: Bridge, payload: unknown, maxBytes: number): SentPayload {
  const body = isResponse(payload) ? payload.body : payload
  if (!isStream(body)) return { taken: async () => body, discard: () => undefined }
  if (bridge.handled?.key === undefined) {
    const held = heldStream(body, maxBytes)
    return { taken: async () => held, discard: () => discard(held) }
  }
  const over = new AbortController()
  const signal = AbortSignal.any([over.signal, bridge.handled.signal])
  const reading = collectBody(body as AsyncIterable<Uint8Array>, maxBytes, signal)
  // The handler may not have ended, and its own error comes before this one.
  reading.catch(() => undefined)
  return { taken: () => bytesOf(bridge, reading), discard: () => over.abort() }
}

async function bytesOf(bridge: Bridge, reading: Promise<Buffer>): Promise<Buffer | undefined> {
  try {
    return await reading
  } catch (error) {
    if (bridge.handled?.signal.aborted === true) return undefined
    bridge.fail(error)
    await bridge.answered
    throw error
  }
}

function heldStream(body: unknown, maxBytes: number): Readable {
  const source = body instanceof ReadableStream ? Readable.fromWeb(body as never) : (body as Readable)
  // The framework gets an error of the source from the held stream.
  return pipeline(source, new PassThrough({ highWaterMark: maxBytes }), () => undefined)
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
