import { randomUUID } from 'node:crypto'
import { InvalidOptionError, LeaseLostError, isTxboxError } from '@txbox/core'
import type { ConnectedPorts, DedupLeaseStore, DedupOwner } from '@txbox/core/ports'
import { idempotencyKey, pause, readableDuration, unlessAborted, within } from '@txbox/core/internal'
import type { HttpResponse } from '../response/http-response.ts'
import { FAILED, UNAVAILABLE, UNAVAILABLE_UNDER_LEASE } from '../response/problems.ts'
import type { CheckedResponse } from '../response/response-checks.ts'
import { storedText } from '../response/stored-response.ts'
import type { Flights } from './flights.ts'
import type { Found } from './found.ts'
import { HandlerCall, NotKept } from './handler-call.ts'
import type { IdempotencySettings } from './idempotency-settings.ts'
import type { LeasedWork } from './idempotency.ts'
import { keepLease } from './keep-lease.ts'
import { HTTP_CONSUMER, type KeyedRequest } from './keyed-request.ts'
import { markLeased } from './mark-leased.ts'
import { RequestTimeoutError } from './request-timeout-error.ts'
import { GRACE_MS, failureOf, type Ending } from './request-transaction.ts'

/** How long a statement may take. */
const ANSWER_MS = 5000
/** How often a response is stored while the database fails: the effect of the handler cannot be rolled back. */
const STORE_ATTEMPTS = 3
const STORE_PAUSE_MS = 200

export interface HowLeased {
  readonly leaseMs: number
  /** Gives up the handler while it runs. */
  readonly signal: AbortSignal | undefined
}

/** Runs handlers without a transaction, under a lease that commits before the handler. */
export class LeasedRequests {
  readonly #ports: ConnectedPorts
  readonly #leases: DedupLeaseStore
  readonly #settings: IdempotencySettings
  readonly #flights: Flights

  constructor(ports: ConnectedPorts, settings: IdempotencySettings, flights: Flights) {
    this.#ports = ports
    this.#leases = ports.dedupLeases({ statementTimeoutMs: ANSWER_MS })
    this.#settings = settings
    this.#flights = flights
  }

  /** Runs the handler of a request without a key: there is no lease, and nothing is stored. Rejects like `keyed`. */
  plain(work: LeasedWork, how: HowLeased): Promise<Ending> {
    return this.#inTime(how.signal, async ({ signal }, call) => {
      const response = await responseOf(call, () => work({ signal }), { maxBytes: Infinity })
      return response.kind === 'kept' ? { kind: 'handled', response: response.response } : response
    })
  }

  /**
   * Runs the handler if the lease of the request is won. Rejects only with what the handler throws, and with the reason of the signal.
   */
  async keyed(
    keyed: KeyedRequest,
    work: LeasedWork,
    { leaseMs, signal }: HowLeased,
  ): Promise<Found | Ending> {
    const owner = { consumer: HTTP_CONSUMER, key: keyed.claimed.stored, token: randomUUID() }
    const heldSince = performance.now()
    try {
      const begun = await this.#leases.begin(owner, { leaseMs, contentHash: keyed.fingerprint })
      if (begun.status === 'in-flight') return { kind: 'in-flight' }
      if (begun.status === 'done') return { kind: 'duplicate', claim: begun }
    } catch (error) {
      // The lost statement may have won.
      void this.#release(owner)
      return this.#failure(error)
    }
    return this.#inTime(signal, async (late, call) => {
      const lost = (cause?: unknown): void => late.abort(leaseLost(cause))
      const stop = keepLease({ leases: this.#leases, owner, leaseMs, heldSince, lost })
      // After `timeoutMs`, what is left to do has the rest of the lease.
      late.signal.addEventListener('abort', stop)
      try {
        return (
          (await this.#refused(owner, leaseMs, late.signal)) ?? (await this.#run(keyed, owner, work, call))
        )
      } finally {
        stop()
        call.end()
      }
    })
  }

  /** @returns what keeps the handler from running. */
  async #refused(
    owner: DedupOwner,
    leaseMs: number,
    signal: AbortSignal,
  ): Promise<Found | Ending | undefined> {
    const { retentionMs, timeoutMs } = this.#settings
    // The lease is extended until `timeoutMs`; the response is kept for its retention from then on.
    const mark = { key: owner.key, retentionMs: retentionMs + timeoutMs + leaseMs, leaseMs }
    let found: Found | Ending
    try {
      const marked = await markLeased(this.#ports, mark, signal)
      if (marked === 'marked') return undefined
      found =
        marked === 'in-flight'
          ? { kind: 'in-flight' }
          : { kind: 'failed', problem: FAILED, error: otherMode() }
    } catch (error) {
      found = signal.aborted ? unavailable(signal.reason) : this.#failure(error)
    }
    await this.#release(owner)
    return found
  }

  async #run(
    { key, claimed, fingerprint }: KeyedRequest,
    owner: DedupOwner,
    work: LeasedWork,
    call: HandlerCall,
  ): Promise<Ending> {
    const about = { key, idempotencyKey: idempotencyKey(HTTP_CONSUMER, claimed), signal: call.signal }
    call.flight = this.#flights.begin(claimed.stored, fingerprint)
    try {
      const given = await responseOf(call, () => work(about), this.#settings.form)
      if (given.kind === 'kept') return await this.#stored(owner, given.response, call.signal)
      await this.#release(owner)
      return given
    } catch (error) {
      await this.#release(owner)
      throw error
    }
  }

  async #stored(owner: DedupOwner, response: CheckedResponse, signal: AbortSignal): Promise<Ending> {
    let result: string
    try {
      // The function `seal` may hang.
      result = await unlessAborted(storedText(response, this.#settings.form), signal)
    } catch (error) {
      await this.#release(owner)
      return signal.aborted ? unavailable(signal.reason) : { kind: 'failed', problem: FAILED, error }
    }
    for (let attempt = 1; ; attempt++) {
      try {
        const { retentionMs } = this.#settings
        const isStored = await this.#leases.complete(owner, { retentionMs, result })
        return isStored ? { kind: 'handled', response } : unavailable(leaseLost())
      } catch (error) {
        if (attempt < STORE_ATTEMPTS && isTxboxError(error) && error.retryable) {
          await pause(STORE_PAUSE_MS * attempt)
          continue
        }
        // Releases only a claim that is not completed.
        void this.#release(owner)
        return this.#failure(error)
      }
    }
  }

  #failure(error: unknown): Ending {
    const failure = failureOf(error, this.#ports)
    return failure.kind === 'failed' && failure.problem === UNAVAILABLE ? unavailable(error) : failure
  }

  /** A lease that cannot be released passes by itself. */
  async #release(owner: DedupOwner): Promise<void> {
    await this.#leases.release(owner).catch(() => undefined)
  }

  /** Aborts the signal of the handler at `timeoutMs`, and answers soon after it. */
  async #inTime<T>(
    signal: AbortSignal | undefined,
    body: (late: AbortController, call: HandlerCall) => Promise<T>,
  ): Promise<T | Ending> {
    const { timeoutMs, keep } = this.#settings
    const late = new AbortController()
    const timedOut = (): RequestTimeoutError =>
      new RequestTimeoutError(
        `The handler of a request did not end within ${readableDuration(timeoutMs)} (timeoutMs). Nothing is stored.`,
      )
    const timer = setTimeout(() => late.abort(timedOut()), timeoutMs)
    signal?.addEventListener('abort', () => late.abort(signal.reason))
    const running = body(late, new HandlerCall(late.signal, keep)).finally(() => clearTimeout(timer))
    const ended = await within(running, timeoutMs + GRACE_MS, () => unavailable(late.signal.reason))
    signal?.throwIfAborted()
    return ended
  }
}

/** @throws what the handler throws. */
async function responseOf(
  call: HandlerCall,
  work: () => Promise<HttpResponse> | HttpResponse,
  limit: { readonly maxBytes: number },
): Promise<{ readonly kind: 'kept'; readonly response: CheckedResponse } | Ending> {
  try {
    return { kind: 'kept', response: await unlessAborted(call.run(work, limit), call.signal) }
  } catch (error) {
    if (error instanceof NotKept) return { kind: 'handled', response: error.response }
    if (call.signal.aborted) return unavailable(call.signal.reason)
    if (call.thrown !== undefined) throw error
    return { kind: 'failed', problem: FAILED, error }
  }
}

function unavailable(error: unknown): Ending {
  return { kind: 'failed', problem: UNAVAILABLE_UNDER_LEASE, error }
}

function leaseLost(cause?: unknown): LeaseLostError {
  return new LeaseLostError(
    'The lease of a request has passed before its response was stored: the process was frozen, or the database could not be reached. ' +
      'Nothing was stored, and the next request runs the handler again.',
    { cause },
  )
}

function otherMode(): InvalidOptionError {
  return new InvalidOptionError(
    'A request cannot be handled under a lease, because handle has claimed its key. The handler did not run. Give handle and ' +
      'handleLeased names of their own: createIdempotency({ name }).',
  )
}
