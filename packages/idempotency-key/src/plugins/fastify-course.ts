import type { FastifyReply, FastifyRequest } from 'fastify'
import { propertyOf } from '@txbox/core/internal'
import type { HttpResponse } from '../response/http-response.ts'
import { AwaitedReply } from './awaited-reply.ts'
import type { Bridge } from './bridge.ts'
import { discard } from './collect-body.ts'
import { replaceHeaders, takeSent, unwrap } from './fastify-responses.ts'
import { sentBody } from './fastify-request.ts'
import { isStream } from './stream-like.ts'

/** The course of one request, whose transaction is open while its handler runs and its response is made. */
export class Course {
  readonly #reply: FastifyReply
  readonly #bridge: Bridge
  readonly #headers: Readonly<Record<string, unknown>>
  readonly #awaited: AwaitedReply
  readonly #handler = Promise.withResolvers<void>()
  #hasEnded = false
  /** An error that the handler has thrown or sent after its response. */
  #late: { readonly error: unknown } | undefined
  /** The handler, or an error handler after it, has given its response to `reply.send`. */
  #isGiven = false
  /** The framework makes a response of this error. */
  #failure: { readonly error: unknown } | undefined
  /** The response has come to the hook that commits. */
  #isSending = false
  /** It is decided what is sent: later responses of the handler are not sent. */
  #isDecided = false

  constructor(reply: FastifyReply, bridge: Bridge) {
    this.#reply = reply
    this.#bridge = bridge
    this.#headers = { ...reply.getHeaders() }
    this.#awaited = new AwaitedReply(reply)
    this.#watchSends()
  }

  /** Runs the handler, and reports what it throws before the framework, or the user's error handler, makes a response of it. */
  run(handler: () => unknown): unknown {
    let returned: unknown
    try {
      returned = handler()
    } catch (error) {
      return this.#failed(error)
    }
    if (
      returned === this.#reply ||
      typeof (returned as PromiseLike<unknown> | undefined)?.then !== 'function'
    ) {
      this.#end()
      return returned
    }
    return Promise.resolve(returned).then(
      (value) => this.#returned(value),
      (error: unknown) => this.#failed(error),
    )
  }

  /** Rolls back when the handler has ended, because the framework makes a response of an error. */
  fail(error: unknown): void {
    this.#failure ??= { error }
    this.#isGiven = false
    if (this.#hasEnded) this.#bridge.fail(error)
    else this.#giveUpAt(error)
  }

  /** Commits before the first byte is sent. @returns what is sent. */
  async commit(payload: unknown, maxBytes: number): Promise<unknown> {
    if (this.#isDecided) return payload
    this.#isSending = true
    const sent = takeSent(this.#bridge, payload, maxBytes)
    // A handler may send its response, and go on with its work in the transaction.
    await Promise.race([this.#handler.promise, this.#bridge.answered])
    if (this.#late !== undefined) {
      sent.discard()
      await this.#bridge.answered
      this.#isDecided = true
      throw this.#late.error
    }
    unwrap(this.#reply, payload)
    const body = await sent.taken()
    this.#bridge.respond({
      status: this.#reply.statusCode,
      headers: this.#reply.getHeaders() as Record<string, string>,
      body: isStream(body) ? '' : (body as Uint8Array),
    })
    const answer = await this.#bridge.answered
    this.#isDecided = true
    if (answer === undefined) return body
    discard(body)
    return this.#instead(answer)
  }

  #watchSends(): void {
    const reply = this.#reply
    const send = reply.send.bind(reply)
    reply.send = (payload?: unknown) => {
      if (this.#isDecided && !this.#isSending) return reply
      // Fastify sends nothing, once more, for a handler that returns before its response is sent.
      if (this.#isGiven && (payload === undefined || this.#failure === undefined)) {
        if (payload instanceof Error) this.#failLate(payload)
        return reply
      }
      if (!(payload instanceof Error)) this.#give()
      return send(payload)
    }
    void this.#bridge.answered.then((answer) => {
      if (answer === undefined || this.#isSending) return
      this.#isDecided = true
      this.#awaited.resolve()
      send(this.#instead(answer))
    })
  }

  #failLate(error: unknown): void {
    if (this.#hasEnded) return
    this.#late ??= { error }
    this.#giveUpAt(error)
  }

  /** At the option `handlerTimeout` of Fastify, nobody waits for the handler any more. */
  #giveUpAt(error: unknown): void {
    if (propertyOf(error, 'code') === 'FST_ERR_HANDLER_TIMEOUT') this.#bridge.giveUp(error)
  }

  #give(): void {
    this.#isGiven = true
    this.#awaited.resolve()
  }

  #end(): void {
    this.#hasEnded = true
    this.#awaited.restore()
    const failure = this.#failure ?? this.#late
    if (failure !== undefined) this.#bridge.fail(failure.error)
    this.#handler.resolve()
  }

  async #returned(value: unknown): Promise<unknown> {
    this.#end()
    if (this.#isGiven) return this.#awaited.sent
    // Fastify would send nothing to a client that has hung up, and the transaction would wait for the response.
    if (value === undefined && isGone(this.#reply.request)) this.#reply.send()
    return value
  }

  #failed(error: unknown): unknown {
    const isLate = this.#isGiven && !this.#isDecided
    if (isLate) this.#failLate(error)
    else this.#failure ??= { error }
    this.#end()
    if (!isLate) throw error
    return this.#awaited.sent
  }

  #instead(answer: HttpResponse): unknown {
    replaceHeaders(this.#reply, this.#headers, answer)
    return sentBody(answer.body)
  }
}

function isGone({ raw, socket }: FastifyRequest): boolean {
  return propertyOf(raw, 'aborted') === true || propertyOf(socket, 'destroyed') !== false
}
