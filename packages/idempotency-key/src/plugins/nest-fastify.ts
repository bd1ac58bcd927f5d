import type { FastifyReply } from 'fastify'
import { AwaitedReply } from './awaited-reply.ts'
import type { Bridge, HeldHandler } from './bridge.ts'
import { discard } from './collect-body.ts'
import { sentBody } from './fastify-request.ts'
import { replaceHeaders, takeSent, unwrap } from './fastify-responses.ts'
import { isResponse, isStream } from './stream-like.ts'

/** Holds what NestJS sends over Fastify, until the bridge has its answer. */
export function holdReply(reply: FastifyReply, bridge: Bridge, maxBytes: number): HeldHandler {
  const send = reply.send.bind(reply)
  const headers = { ...reply.getHeaders() }
  const awaited = new AwaitedReply(reply)
  const handler = Promise.withResolvers<void>()
  let hasEnded = false
  let hasFailed = false
  /** The payload that is being sent, in a list of its own. */
  let sending: readonly unknown[] | undefined
  const commit = async (current: readonly [unknown]): Promise<void> => {
    const sent = takeSent(bridge, serialized(reply, current[0]), maxBytes)
    // A handler may send its response by itself, and go on with its work in the transaction.
    await Promise.race([handler.promise, bridge.answered])
    if (sending !== current) {
      sent.discard()
      return
    }
    const body = await sent.taken()
    bridge.respond({
      status: reply.statusCode,
      headers: reply.getHeaders() as Record<string, string>,
      body: isStream(body) ? '' : (body as Uint8Array),
    })
    const answer = await bridge.answered
    if (answer === undefined) {
      send(sentBody(body))
      return
    }
    discard(body)
    replaceHeaders(reply, headers, answer)
    send(sentBody(answer.body))
  }
  /** What cannot be serialized or read rolls back, before the framework makes a response of the error. */
  const rollBack = async (cause: unknown): Promise<void> => {
    await Promise.race([handler.promise, bridge.answered])
    bridge.fail(cause)
    hasFailed = true
    const answer = await bridge.answered
    if (answer !== undefined) replaceHeaders(reply, headers, answer)
    send(answer === undefined ? cause : sentBody(answer.body))
  }
  // NestJS waits for what `send` returns.
  reply.send = ((payload?: unknown) => {
    // The error handler of Fastify sends its response, too.
    if (hasFailed && payload !== undefined) return send(payload)
    if (sending !== undefined) return reply
    const current = [payload] as const
    sending = current
    awaited.resolve()
    const committing = commit(current).catch(rollBack)
    return hasEnded ? committing.then(() => reply) : reply
  }) as never
  void bridge.answered.then((answer) => {
    if (answer === undefined || sending !== undefined) return
    sending = []
    awaited.resolve()
    replaceHeaders(reply, headers, answer)
    send(sentBody(answer.body))
  })
  const end = (): void => {
    hasEnded = true
    awaited.restore()
    handler.resolve()
  }
  return {
    end,
    fail() {
      // What the handler has sent before it failed is not sent.
      sending = undefined
      end()
    },
  }
}

/** As Fastify does it: objects become JSON, and each kind of body has its media type. */
function serialized(reply: FastifyReply, given: unknown): unknown {
  unwrap(reply, given)
  const payload = isResponse(given) ? given.body : given
  if (payload === undefined || payload === null || isStream(payload)) return payload
  const isBytes = payload instanceof Uint8Array
  const isText = typeof payload === 'string'
  if (!reply.hasHeader('content-type')) {
    const other = isText ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8'
    reply.header('content-type', isBytes ? 'application/octet-stream' : other)
  }
  return isBytes ? payload : Buffer.from(isText ? payload : (reply.serialize(payload) as string))
}
