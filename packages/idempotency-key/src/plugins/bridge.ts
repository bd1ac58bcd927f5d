import type { HttpRequest, RequestContext } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { RequestRunner } from '../handle/request-runner.ts'

/** The transaction and the context that a plug-in passes to the handler of its framework. */
export interface BridgedRequest<Tx = unknown> extends RequestContext {
  readonly tx: Tx
}

/** A request whose transaction is open while a framework runs its handler. */
export interface Bridge {
  /** `undefined` if the request is answered without its handler. */
  readonly handled: BridgedRequest | undefined
  /** Rolls back, because the handler has failed. */
  fail(error: unknown): void
  /** Passes the response of the handler on, and commits, unless the handler has failed or took too long. */
  respond(response: HttpResponse): void
  /** Resolves with what is sent instead; with `undefined`, the framework's own response is sent. Never rejects. */
  readonly answered: Promise<HttpResponse | undefined>
}

/** Begins a request, up to its handler. For frameworks that call a handler by themselves, and once only. */
export async function openBridge(runner: RequestRunner, request: HttpRequest): Promise<Bridge> {
  const begun = Promise.withResolvers<BridgedRequest>()
  const ready = Promise.withResolvers<HttpResponse>()
  // After `timeoutMs`, nobody waits for the handler any more.
  ready.promise.catch(() => undefined)
  const work = (tx: unknown, about: RequestContext): Promise<HttpResponse> => {
    begun.resolve({ ...about, tx })
    return ready.promise
  }
  const answered = runner.answer(request, work, { canRepeat: false }).then(
    ({ kind, response }) => (kind === 'handled' ? undefined : response),
    // The error of the handler, of which the framework makes a response.
    () => undefined,
  )
  const handled = await Promise.race([begun.promise, answered.then(() => undefined)])
  return {
    handled,
    fail: (error) => ready.reject(error),
    respond: (response) => ready.resolve(response),
    answered,
  }
}
