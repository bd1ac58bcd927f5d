import type { RequestContext, TakenRequest } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { RequestRunner } from '../handle/request-runner.ts'

/** The transaction and the context that a plug-in passes to the handler of its framework. */
export interface BridgedRequest<Tx = unknown> extends RequestContext {
  /** `undefined` under a lease. */
  readonly tx: Tx
}

/** A request whose transaction is open while a framework runs its handler. */
export interface Bridge {
  /** `undefined` if the request is answered without its handler. */
  readonly handled: BridgedRequest | undefined
  /** Rolls back, because the handler has failed. The handler must have ended: the connection goes back to its pool. */
  fail(error: unknown): void
  /** Rolls back and closes the connection, because nobody waits for the handler, which still runs. Its signal is aborted. */
  giveUp(error: unknown): void
  /** Passes the response of the handler on, and commits, unless the handler has failed or took too long. */
  respond(response: HttpResponse): void
  /** Resolves with what is sent instead; with `undefined`, the framework's own response is sent. Never rejects. */
  readonly answered: Promise<HttpResponse | undefined>
}

/** Holds the response of a framework. The plug-in reports how the handler has ended. */
export interface HeldHandler {
  /** COMMIT waits for the handler. */
  end(): void
  /** The handler has failed or was given up: the framework makes another response, which counts. */
  fail(): void
}

/**
 * Begins a request, up to its handler. For frameworks that call a handler by themselves, and once only.
 *
 * @param leaseMs for a handler without a transaction.
 */
export async function openBridge(
  runner: RequestRunner,
  request: TakenRequest,
  leaseMs?: number,
): Promise<Bridge> {
  const begun = Promise.withResolvers<BridgedRequest>()
  const ready = Promise.withResolvers<HttpResponse>()
  // After `timeoutMs`, nobody waits for the handler any more.
  ready.promise.catch(() => undefined)
  const givenUp = new AbortController()
  const work = (tx: unknown, about: RequestContext): Promise<HttpResponse> => {
    begun.resolve({ ...about, tx })
    return ready.promise
  }
  const answered = runner.answer(request, work, { canRepeat: false, signal: givenUp.signal, leaseMs }).then(
    ({ kind, response }) => (kind === 'handled' ? undefined : response),
    // The error of the handler, of which the framework makes a response.
    () => undefined,
  )
  const handled = await Promise.race([begun.promise, answered.then(() => undefined)])
  return {
    handled,
    fail: (error) => ready.reject(error),
    giveUp: (error) => givenUp.abort(error),
    respond: (response) => ready.resolve(response),
    answered,
  }
}
