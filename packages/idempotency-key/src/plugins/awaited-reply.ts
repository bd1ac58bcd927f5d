import type { FastifyReply } from 'fastify'

/**
 * A reply of Fastify whose handler may await it. Fastify resolves it when the response is sent; COMMIT, and so the sending, waits
 * for the handler, so that it resolves here when the handler has given its response.
 */
export class AwaitedReply {
  readonly #reply: FastifyReply
  readonly #given = Promise.withResolvers<void>()

  constructor(reply: FastifyReply) {
    this.#reply = reply
    const then: FastifyReply['then'] = (fulfilled, rejected) =>
      void this.#given.promise.then(fulfilled, rejected)
    Object.defineProperty(reply, 'then', { value: then, configurable: true, writable: true })
  }

  /** Lets the handler go on. */
  resolve(): void {
    this.#given.resolve()
  }

  /** Lets the reply be as it was, when the handler has ended. */
  restore(): void {
    Reflect.deleteProperty(this.#reply, 'then')
  }

  /** Resolves when the response is sent, once the reply is as it was. */
  get sent(): Promise<undefined> {
    return new Promise((resolve, reject) => this.#reply.then(() => resolve(undefined), reject))
  }
}
