import type { Flight } from './flights.ts'
import type { HttpResponse } from '../response/http-response.ts'
import { checkedResponse, type CheckedResponse } from '../response/response-checks.ts'

/** Rolls back a transaction whose response is sent, but not stored. */
export class NotKept extends Error {
  readonly response: CheckedResponse

  constructor(response: CheckedResponse) {
    super(`The status ${response.status} is not kept.`)
    this.response = response
  }
}

/** The calls of one request's handler: one, or one for each attempt after a conflict. */
export class HandlerCall {
  readonly signal: AbortSignal
  readonly #keep: (status: number) => boolean
  /** Whether the handler was called, in any attempt. */
  hasStarted = false
  /** The error of the handler's last attempt. */
  thrown: { readonly error: unknown } | undefined
  /** Begun by the attempt that has won the claim. */
  flight: Flight | undefined

  constructor(signal: AbortSignal, keep: (status: number) => boolean) {
    this.signal = signal
    this.#keep = keep
  }

  /** Ends an attempt, whose transaction has ended. */
  end(): void {
    this.flight?.end()
    this.flight = undefined
  }

  /**
   * Calls the handler, and checks its response, whether the response is kept or not.
   *
   * @param maxBytes the limit of the body of the response; Infinity for a response that is not stored in any case.
   * @throws {NotKept} for a response whose transaction must be rolled back.
   * @throws {InvalidMessageError} for a response that cannot be sent, or whose body is too large.
   */
  async run(
    work: () => Promise<HttpResponse> | HttpResponse,
    { maxBytes }: { readonly maxBytes: number },
  ): Promise<CheckedResponse> {
    // The claim may have waited, and the transaction may have been given up in the meantime.
    this.signal.throwIfAborted()
    this.hasStarted = true
    let given: HttpResponse
    try {
      given = await work()
    } catch (error) {
      this.thrown = { error }
      throw error
    }
    const response = checkedResponse(given, maxBytes)
    if (!this.#keep(response.status)) throw new NotKept(response)
    return response
  }
}
