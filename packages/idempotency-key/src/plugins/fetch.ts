import { readBody, requestOfFetch, responseOfFetch, sentResponse } from './fetch-bodies.ts'
import type { RequestContext } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { leaseOption, type LeaseOptions } from '../handle/lease-option.ts'
import type { RequestRunner } from '../handle/request-runner.ts'
import { runnerOf } from '../handle/runner-of.ts'

/** A handler of fetch that gets the transaction of its request, and the further arguments of the framework. */
export type IdempotentFetchHandler<Tx, Rest extends readonly unknown[] = []> = (
  request: Request,
  tx: Tx,
  about: RequestContext,
  ...rest: Rest
) => Promise<Response> | Response

/**
 * Returns a handler of fetch, for route handlers of Next.js, Bun, Deno and others:
 * `export const POST = idempotentFetch(idempotency, async (request, tx) => Response.json(…))`. The handler may read the body.
 * After a conflict in the database, the handler is called again with a copy of the request, unless the request has a body of which
 * no copy was kept: of another method than `methods`, or over `maxRequestBytes` without a key. The promise rejects only with what
 * the handler throws.
 *
 * @throws {InvalidOptionError} when `idempotency` is not the result of `createIdempotency`.
 */
export function idempotentFetch<Tx, Rest extends readonly unknown[] = []>(
  idempotency: Idempotency<Tx>,
  handler: IdempotentFetchHandler<Tx, Rest>,
): (request: Request, ...rest: Rest) => Promise<Response> {
  return fetchHandler(runnerOf('idempotentFetch', idempotency), handler, undefined)
}

/** A handler of fetch that runs under a lease. */
export type LeasedFetchHandler<Rest extends readonly unknown[] = []> = (
  request: Request,
  about: RequestContext,
  ...rest: Rest
) => Promise<Response> | Response

/**
 * Like `idempotentFetch`, for a handler that calls another system: it runs without a transaction, as `idempotency.handleLeased` says.
 * `export const POST = idempotentFetchLeased(idempotency, async (request, { idempotencyKey, signal }) => Response.json(…))`
 *
 * @throws {InvalidOptionError} when `idempotency` is not the result of `createIdempotency`, or for a wrong option.
 */
export function idempotentFetchLeased<Tx, Rest extends readonly unknown[] = []>(
  idempotency: Idempotency<Tx>,
  handler: LeasedFetchHandler<Rest>,
  options: LeaseOptions = {},
): (request: Request, ...rest: Rest) => Promise<Response> {
  const where = 'idempotentFetchLeased'
  const runner = runnerOf(where, idempotency)
  const leaseMs = leaseOption(where, options)
  return fetchHandler<undefined, Rest>(
    runner,
    (request, _, about, ...rest) => handler(request, about, ...rest),
    leaseMs,
  )
}

function fetchHandler<Tx, Rest extends readonly unknown[]>(
  runner: RequestRunner,
  handler: IdempotentFetchHandler<Tx, Rest>,
  leaseMs: number | undefined,
): (request: Request, ...rest: Rest) => Promise<Response> {
  const { methods, maxRequestBytes, form } = runner.settings
  return async (request, ...rest) => {
    const takesKey = methods.has(request.method)
    const body = takesKey ? await readBody(request.clone(), maxRequestBytes) : new Uint8Array()
    let attempts = 0
    let plain: Response | undefined
    const work = async (tx: unknown, about: RequestContext): Promise<HttpResponse> => {
      attempts += 1
      // The body of the request was read; another attempt needs its bytes.
      const given =
        attempts === 1
          ? request
          : new Request(request.url, { ...copied(request), body: body.byteLength === 0 ? null : body })
      const response = await handler(given, tx as Tx, about, ...rest)
      // Without a key, the response is not stored: its body is sent as it comes.
      if (about.key === undefined) plain = response
      return responseOfFetch(response, about.key === undefined ? undefined : form.maxBytes, about.signal)
    }
    // A body whose bytes are not all here can be read once.
    const canRepeat = request.body === null || (takesKey && body.byteLength <= maxRequestBytes)
    const taken = requestOfFetch(request, body)
    const { kind, response } = await runner.answer(taken, work, { canRepeat, leaseMs })
    return kind === 'handled' && plain !== undefined ? plain : sentResponse(response)
  }
}

function copied({ method, headers, signal }: Request): RequestInit {
  return { method, headers, signal }
}
