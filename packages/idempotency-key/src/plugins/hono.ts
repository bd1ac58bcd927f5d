import type { Context, MiddlewareHandler } from 'hono'
import { readBody, requestOfFetch, responseOfFetch, sentResponse } from './fetch-bodies.ts'
import type { RequestContext } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { leaseOption, type LeaseOptions } from '../handle/lease-option.ts'
import type { RequestRunner } from '../handle/request-runner.ts'
import { runnerOf } from '../handle/runner-of.ts'

/** The variables that the handlers behind the middleware can get. */
export interface IdempotencyVariables<Tx> {
  /** The transaction, which commits with the response. */
  tx: Tx
  /** The key, the idempotency key for other systems, and the signal. */
  idempotency: RequestContext
}

/**
 * A middleware of Hono 4: `app.post('/orders', idempotent(idempotency), (c) => { c.get('tx') … })`. What is mounted before it comes
 * before the replay: mount authentication first. The response is held until the transaction has committed. The handler is called
 * once, so that a conflict in the database is a 503. The `native` of the request, for the option `tenant`, is the `Context`.
 *
 * @throws {InvalidOptionError} when `idempotency` is not the result of `createIdempotency`.
 */
export function idempotent<Tx>(
  idempotency: Idempotency<Tx>,
): MiddlewareHandler<{ Variables: IdempotencyVariables<Tx> }> {
  return middleware(runnerOf('idempotent', idempotency), undefined)
}

/**
 * Like `idempotent`, for a handler that calls another system: it runs without a transaction, as `idempotency.handleLeased` says.
 * `app.post('/payments', idempotentLeased(idempotency), (c) => { c.get('idempotency').idempotencyKey … })`
 *
 * @throws {InvalidOptionError} when `idempotency` is not the result of `createIdempotency`, or for a wrong option.
 */
export function idempotentLeased<Tx>(
  idempotency: Idempotency<Tx>,
  options: LeaseOptions = {},
): MiddlewareHandler<{ Variables: Pick<IdempotencyVariables<Tx>, 'idempotency'> }> {
  const where = 'idempotentLeased'
  const runner = runnerOf(where, idempotency)
  return middleware(runner, leaseOption(where, options))
}

function middleware(runner: RequestRunner, leaseMs: number | undefined): MiddlewareHandler {
  const { methods, maxRequestBytes, form } = runner.settings
  return async (c, next) => {
    const body = methods.has(c.req.method) ? await bytesOf(c, maxRequestBytes) : new Uint8Array()
    let isStored = false
    const work = async (tx: unknown, about: RequestContext): Promise<HttpResponse> => {
      if (leaseMs === undefined) c.set('tx', tx)
      c.set('idempotency', about)
      await next()
      // Hono has made a response of what a handler has thrown.
      if (c.error !== undefined) throw c.error
      isStored = about.key !== undefined
      return responseOfFetch(c.res, isStored ? form.maxBytes : undefined, about.signal)
    }
    const request = { ...requestOfFetch(c.req.raw, body), route: routeOf(c), native: c }
    try {
      // A middleware can call the handlers behind it only once.
      const { kind, response } = await runner.answer(request, work, { canRepeat: false, leaseMs })
      if (kind === 'instead' || isStored) replace(c, sentResponse(response))
    } catch (error) {
      if (error !== c.error) throw error
    }
  }
}

/** Hono keeps the bytes, so that the handler can still read the body in any form. */
async function bytesOf(c: Context, maxBytes: number): Promise<Uint8Array> {
  if (Number(c.req.header('content-length') ?? 0) > maxBytes) return new Uint8Array(maxBytes + 1)
  if (c.req.header('content-length') === undefined && !c.req.raw.bodyUsed) {
    const bytes = await readBody(c.req.raw.clone(), maxBytes)
    if (bytes.byteLength > maxBytes) return bytes
  }
  return new Uint8Array(await c.req.arrayBuffer())
}

/** Without the headers of the response before, which Hono would add. */
function replace(c: Context, response: Response): void {
  c.res = undefined
  c.res = response
}

function routeOf(c: Context): string | undefined {
  return c.req.routePath
}
