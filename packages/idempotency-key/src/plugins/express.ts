import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { HeldResponse } from './held-response.ts'
import type { RequestContext } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { leaseOption, type LeaseOptions } from '../handle/lease-option.ts'
import type { RequestRunner } from '../handle/request-runner.ts'
import { hasNoUnreadBody, nodeRequest } from './node-request.ts'
import { runnerOf } from '../handle/runner-of.ts'

/** A handler of Express that gets the transaction of its request. It ends the response, as any handler does. */
export type IdempotentHandler<Tx> = (
  request: Request,
  response: Response,
  tx: Tx,
  about: RequestContext,
) => unknown

/**
 * Returns the last handler of a route of Express 5: `app.post('/orders', authenticate, idempotent(idempotency, handler))`. What
 * comes before it in the route, or was mounted before, comes before the replay: mount authentication first. A parser may come
 * before or not: without one, the body is read here. The transaction commits when the handler has returned and has ended the response,
 * and the response is held until then.
 *
 * @throws {InvalidOptionError} when `idempotency` is not the result of `createIdempotency`.
 */
export function idempotent<Tx>(idempotency: Idempotency<Tx>, handler: IdempotentHandler<Tx>): RequestHandler {
  const runner = runnerOf('idempotent', idempotency)
  return routeHandler(runner, handler as IdempotentHandler<unknown>, undefined)
}

/** A handler of Express that runs under a lease. It ends the response, as any handler does. */
export type LeasedHandler = (request: Request, response: Response, about: RequestContext) => unknown

/**
 * Like `idempotent`, for a handler that calls another system: it runs without a transaction, as `idempotency.handleLeased` says.
 * `app.post('/payments', authenticate, idempotentLeased(idempotency, async (req, res, { idempotencyKey, signal }) => { … }))`
 *
 * @throws {InvalidOptionError} when `idempotency` is not the result of `createIdempotency`, or for a wrong option.
 */
export function idempotentLeased<Tx>(
  idempotency: Idempotency<Tx>,
  handler: LeasedHandler,
  options: LeaseOptions = {},
): RequestHandler {
  const where = 'idempotentLeased'
  const runner = runnerOf(where, idempotency)
  const leaseMs = leaseOption(where, options)
  return routeHandler(runner, (request, response, _, about) => handler(request, response, about), leaseMs)
}

function routeHandler(
  runner: RequestRunner,
  handler: IdempotentHandler<unknown>,
  leaseMs: number | undefined,
): RequestHandler {
  const handle = async (request: Request, response: Response): Promise<void> => {
    const taken = await nodeRequest(request, runner.settings)
    // Must be determined before the handler reads the body.
    const canRepeat = hasNoUnreadBody(request)
    const held = new HeldResponse(response)
    const work = async (tx: unknown, about: RequestContext): Promise<HttpResponse> => {
      // The response of a request without a key is not stored, and may have any length.
      const ended = held.begin(about.key === undefined ? Infinity : runner.settings.form.maxBytes)
      // A handler may end its response, and go on with its work in the transaction.
      await handler(request, response, tx, about)
      return ended
    }
    try {
      const { kind, response: answer } = await runner.answer(taken, work, { leaseMs, canRepeat })
      held.send(kind === 'handled' ? undefined : answer)
    } catch (error) {
      held.giveUp()
      throw error
    }
  }
  return (request: Request, response: Response, next: NextFunction) => {
    // oxlint-disable-next-line promise/no-callback-in-promise -- Express takes errors by its callback.
    handle(request, response).catch(next)
  }
}
