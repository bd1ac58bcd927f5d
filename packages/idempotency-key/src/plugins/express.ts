import type { NextFunction, Request, RequestHandler, Response } from 'express'
import { HeldResponse } from './held-response.ts'
import type { RequestContext } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { Idempotency } from '../handle/idempotency.ts'
import { nodeRequest } from './node-request.ts'
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
  const handle = async (request: Request, response: Response): Promise<void> => {
    const taken = await nodeRequest(request, runner.settings)
    const held = new HeldResponse(response)
    const work = async (tx: unknown, about: RequestContext): Promise<HttpResponse> => {
      // The response of a request without a key is not stored, and may have any length.
      const ended = held.begin(about.key === undefined ? Infinity : runner.settings.form.maxBytes)
      // A handler may end its response, and go on with its work in the transaction.
      await handler(request, response, tx as Tx, about)
      return ended
    }
    try {
      const { kind, response: answer } = await runner.answer(taken, work)
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
