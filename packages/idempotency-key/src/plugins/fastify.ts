import type { FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from 'fastify'
import { pipeline, Transform, type Readable } from 'node:stream'
import { InvalidOptionError } from '@txbox/core'
import { openBridge, type Bridge } from './bridge.ts'
import { ByteCollector } from './byte-collector.ts'
import { sendThroughBridge, watchSends, type Course } from './fastify-course.ts'
import { mediaType, type HttpRequest, type RequestContext } from '../request/http-request.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { UNREAD } from '../request/request-fingerprint.ts'
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
  /** The transaction, which commits before the first byte of the response is sent. */
  readonly tx: RequestTransaction extends { tx: infer Tx } ? Tx : unknown
}

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Handles each request of this route once. */
    idempotency?: boolean | undefined
  }
  interface FastifyRequest {
    /** Set in the handlers of routes with `config: { idempotency: true }`. */
    idempotency: RequestIdempotency
  }
}

type Courses = WeakMap<FastifyRequest, Course>

/**
 * A plug-in for Fastify 5: handles the requests of each route with `config: { idempotency: true }` once. Register it after all
 * plug-ins that let requests pass or refuse them, and before the routes. A request is answered from the store, or gets a
 * transaction, only after the hooks of its route have let it pass.
 *
 * @throws {InvalidOptionError} when the option `idempotency` is not the result of `createIdempotency`.
 */
export async function fastifyIdempotency(
  app: FastifyInstance,
  options: { readonly idempotency: Idempotency<unknown> },
): Promise<void> {
  const runner = runnerOf('fastifyIdempotency', options.idempotency)
  const courses: Courses = new WeakMap()
  app.decorateRequest('idempotency', null as never)
  app.addHook('onRoute', (route) => {
    const given: unknown = route.config?.idempotency
    if (given === undefined || given === false) return
    if (given !== true) {
      throw new InvalidOptionError(
        'fastifyIdempotency: the config idempotency of a route must be true or false.',
      )
    }
    handleOnce(route, runner, courses)
  })
}

// The hooks belong to the instance that registers the plug-in, and not to a scope of their own.
Object.assign(fastifyIdempotency, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: '@txbox/idempotency-key',
})

function handleOnce(route: RouteOptions, runner: RequestRunner, courses: Courses): void {
  const { methods, maxRequestBytes, form } = runner.settings
  const record = async (request: FastifyRequest, _: FastifyReply, payload: Readable): Promise<Readable> => {
    // A parser of multipart bodies reads the request itself.
    if (!methods.has(request.method) || mediaType(requestOf(request)).startsWith('multipart/')) return payload
    const body = new ByteCollector(maxRequestBytes)
    courses.set(request, { body, isSending: false, isDecided: false })
    return recorded(payload, body)
  }
  const begin = async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply | undefined> => {
    const course: Course = courses.get(request) ?? { isSending: false, isDecided: false }
    courses.set(request, course)
    const bridge = await openBridge(runner, requestOf(request, course.body))
    course.bridge = bridge
    course.headers = { ...reply.getHeaders() }
    if (bridge.handled !== undefined) {
      request.idempotency = bridge.handled
      watchSends(reply, course, bridge)
      return undefined
    }
    course.isDecided = true
    const answer = await bridge.answered
    return reply
      .code(answer!.status)
      .headers({ ...(answer!.headers as Record<string, string>) })
      .send(answer!.body?.length === 0 ? undefined : answer!.body)
  }
  const commit = (request: FastifyRequest, reply: FastifyReply, payload: unknown): Promise<unknown> =>
    sendThroughBridge(courses.get(request), reply, payload, form.maxBytes)
  const { handler } = route
  Object.assign(route, {
    preParsing: [...listOf(route.preParsing), record],
    // Behind all other hooks of the route.
    preHandler: [...listOf(route.preHandler), begin],
    // Before hooks that compress what is sent.
    onSend: [
      async (request: FastifyRequest, reply: FastifyReply, payload: unknown) =>
        commit(request, reply, payload),
      ...listOf(route.onSend),
    ],
    handler(this: FastifyInstance, request: FastifyRequest, reply: FastifyReply) {
      return failing(courses.get(request)?.bridge, () => handler.call(this, request, reply))
    },
  })
}

/** Reports what a handler throws before the framework, or the user's own error handler, makes a response of it. */
function failing(bridge: Bridge | undefined, handler: () => unknown): unknown {
  const failed = (error: unknown): never => {
    bridge?.fail(error)
    throw error
  }
  try {
    const returned = handler()
    return returned instanceof Promise ? returned.catch(failed) : returned
  } catch (error) {
    return failed(error)
  }
}

function requestOf(request: FastifyRequest, body?: ByteCollector): HttpRequest {
  const bytes = body?.bytes ?? new Uint8Array()
  const isUnread = body === undefined && request.headers['content-type'] !== undefined
  return {
    method: request.method,
    path: request.raw.url ?? request.url,
    headers: request.headers,
    body: bytes,
    ...(request.body === undefined && !isUnread ? {} : { parsedBody: request.body ?? UNREAD }),
    route: request.routeOptions.url,
  }
}

/** A stream with the same bytes, which are also collected. */
function recorded(payload: Readable, body: ByteCollector): Readable {
  const copy = new Transform({
    transform(chunk: Buffer, _, done) {
      body.add(chunk)
      done(null, chunk)
    },
  })
  // A hook that decompresses counts the bytes that were received, by which Fastify compares the length.
  Object.defineProperty(copy, 'receivedEncodedLength', {
    get: () => Reflect.get(payload, 'receivedEncodedLength') as unknown,
  })
  // The parser gets an error of the request from the copy.
  return pipeline(payload, copy, () => undefined)
}

function listOf<T>(hooks: T | readonly T[] | undefined): readonly T[] {
  return hooks === undefined ? [] : Array.isArray(hooks) ? (hooks as readonly T[]) : [hooks as T]
}
