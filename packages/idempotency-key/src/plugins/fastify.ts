import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import type { Readable } from 'node:stream'
import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import { openBridge } from './bridge.ts'
import { ByteCollector } from './byte-collector.ts'
import { Course } from './fastify-course.ts'
import { hasBody } from './node-request.ts'
import { recorded } from './recorded-stream.ts'
import { requestOf, sentBody } from './fastify-request.ts'
import { mediaType, type RequestContext } from '../request/http-request.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { leaseOption, type LeaseOptions } from '../handle/lease-option.ts'
import type { RequestRunner } from '../handle/request-runner.ts'
import { runnerOf } from '../handle/runner-of.ts'

/**
 * Declares the type of `request.idempotency.tx`:
 * `declare module '@txbox/idempotency-key/fastify' { interface RequestTransaction { tx: PoolClient } }`.
 */
// oxlint-disable-next-line typescript/no-empty-interface -- the user's declaration adds its member.
export interface RequestTransaction {}

/** The value of `request.idempotency` in the handler of a route with `config: { idempotency: true }`. */
export type RequestIdempotency = RequestContext & {
  /** The transaction, which commits before the first byte of the response is sent. Absent in a route with a lease. */
  readonly tx: RequestTransaction extends { tx: infer Tx } ? Tx : unknown
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Handles each request of this route once: in a transaction, or with `{ leaseMs }` under a lease, as `handleLeased` does. */
    idempotency?: boolean | LeaseOptions | undefined
  }
  interface FastifyRequest {
    /** Set in the handlers of routes with `config: { idempotency: true }`. */
    idempotency: RequestIdempotency
  }
}

/** The state that the hooks of one request share. */
interface Shared {
  /** Absent if the bytes of the body were not read here. */
  readonly body?: ByteCollector
  readonly course?: Course
}

type Requests = WeakMap<FastifyRequest, Shared>

/**
 * A plug-in for Fastify 5: handles the requests of each route with `config: { idempotency: true }` once. A request is answered
 * from the store, or gets a transaction, only after the hooks of its route have let it pass: register the plug-in after all
 * plug-ins that let requests pass or refuse them, and before the routes. What is stored is the response before the `onSend` hooks
 * that are added after the plug-in, and all of them see a replay, too: add hooks that change responses after the plug-in.
 *
 * A handler must send its response through the reply: with `reply.hijack()` or `reply.raw`, nothing is stored, and the transaction
 * is rolled back at `timeoutMs`.
 *
 * @throws {InvalidOptionError} when the option `idempotency` is not the result of `createIdempotency`, or when the config
 *   `idempotency` of a route is neither true, nor false, nor `{ leaseMs }`.
 */
export async function fastifyIdempotency(
  app: FastifyInstance,
  options: { readonly idempotency: Idempotency<unknown> },
): Promise<void> {
  const runner = runnerOf('fastifyIdempotency', options.idempotency)
  const { maxBytes } = runner.settings.form
  const requests: Requests = new WeakMap()
  app.decorateRequest('idempotency', null as never)
  app.addHook('onRoute', (route) => {
    const given: unknown = route.config?.idempotency
    if (given === undefined || given === false) return
    handleOnce(route, runner, requests, leaseOf(given))
  })
  app.addHook('onError', async (request, _, error) => requests.get(request)?.course?.fail(error))
  app.addHook('onSend', async (request, _, payload) => {
    const course = requests.get(request)?.course
    return course === undefined ? payload : course.commit(payload, maxBytes)
  })
}

// The hooks belong to the instance that registers the plug-in, and not to a scope of their own.
Object.assign(fastifyIdempotency, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: '@txbox/idempotency-key',
})

/** @returns `undefined` for a handler in a transaction. */
function leaseOf(given: unknown): number | undefined {
  if (given === true) return undefined
  const where = 'fastifyIdempotency'
  if (typeof given === 'object' && given !== null) return leaseOption(where, given)
  throw new InvalidOptionError(
    `${where}: the config idempotency of a route must be true, false or { leaseMs }, not ${nameOf(given)}.`,
  )
}

function handleOnce(
  route: RouteOptions,
  runner: RequestRunner,
  requests: Requests,
  leaseMs: number | undefined,
): void {
  const { methods, maxRequestBytes } = runner.settings
  const record = async (request: FastifyRequest, _: FastifyReply, payload: Readable): Promise<Readable> => {
    // A parser of multipart bodies reads the request itself.
    if (!methods.has(request.method) || mediaType(requestOf(request)).startsWith('multipart/')) return payload
    // To read nothing would end the request, and with it the option `handlerTimeout`.
    if (request.raw.httpVersionMajor < 2 && !hasBody(request.raw)) return payload
    const body = new ByteCollector(maxRequestBytes)
    requests.set(request, { body })
    return recorded(payload, body)
  }
  const begin = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const taken = requestOf(request, requests.get(request)?.body?.bytes)
    const bridge = await openBridge(runner, taken, leaseMs)
    if (bridge.handled !== undefined) {
      request.idempotency = bridge.handled
      requests.set(request, { course: new Course(reply, bridge) })
      return undefined
    }
    const answer = await bridge.answered
    return reply
      .code(answer!.status)
      .headers({ ...(answer!.headers as Record<string, string>) })
      .send(sentBody(answer!.body))
  }
  const { handler } = route
  Object.assign(route, {
    preParsing: [...listOf(route.preParsing), record],
    // Behind all other hooks of the route.
    preHandler: [...listOf(route.preHandler), begin],
    handler(this: FastifyInstance, request: FastifyRequest, reply: FastifyReply) {
      const run = (): unknown => handler.call(this, request, reply)
      const course = requests.get(request)?.course
      return course === undefined ? run() : course.run(run)
    },
  })
}

function listOf<T>(hooks: T | readonly T[] | undefined): readonly T[] {
  return hooks === undefined ? [] : Array.isArray(hooks) ? (hooks as readonly T[]) : [hooks as T]
}
