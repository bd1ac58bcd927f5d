import { InvalidOptionError, type Session } from '@txbox/core'
import type { Claim, ConnectedPorts } from '@txbox/core/ports'
import { idempotencyKey, pause, readableDuration, within } from '@txbox/core/internal'
import { Flights } from './flights.ts'
import type { Found, StoredClaim } from './found.ts'
import type { HandlerCall } from './handler-call.ts'
import type { HttpRequest, RequestContext, TakenRequest } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { IdempotencySettings } from './idempotency-settings.ts'
import type { LeasedWork, Work } from './idempotency.ts'
import { HTTP_CONSUMER, identified, isUnscoped, type KeyedRequest } from './keyed-request.ts'
import {
  FAILED,
  IN_FLIGHT,
  OTHER_REQUEST,
  UNAVAILABLE,
  UNAVAILABLE_UNDER_LEASE,
  UNAVAILABLE_WITHOUT_KEY,
  problemResponse,
  type Problem,
} from '../response/problems.ts'
import { LeasedRequests, type HowLeased } from './leased-requests.ts'
import { LEASED_MARK } from './mark-leased.ts'
import type { RequestLog } from './request-log.ts'
import type { RequestSpans } from './request-span.ts'
import { RequestTimeoutError } from './request-timeout-error.ts'
import { inTransaction, type Ending } from './request-transaction.ts'
import type { CheckedResponse } from '../response/response-checks.ts'
import { storedResponse, storedText } from '../response/stored-response.ts'

/** The pauses between two looks at a request that another process handles. */
const SHORTEST_LOOK_MS = 20
const LONGEST_LOOK_MS = 500

/** The response to a client. */
export interface Answer {
  /** `'handled'`: the handler's own response. `'instead'`: a stored response, or a problem. */
  readonly kind: 'handled' | 'instead'
  readonly response: HttpResponse
}

interface HowAnswered {
  readonly canRepeat?: boolean
  readonly signal?: AbortSignal
  readonly leaseMs?: number | undefined
}

/** Answers requests: see the table of `docs/http.md`. */
export class RequestRunner {
  readonly settings: IdempotencySettings
  readonly #ports: ConnectedPorts
  readonly #log: RequestLog
  readonly #spans: RequestSpans
  readonly #flights = new Flights()
  readonly #leased: LeasedRequests

  constructor(ports: ConnectedPorts, settings: IdempotencySettings, log: RequestLog, spans: RequestSpans) {
    this.#ports = ports
    this.settings = settings
    this.#log = log
    this.#spans = spans
    this.#leased = new LeasedRequests(ports, settings, this.#flights)
  }

  /**
   * Answers a request by its handler, by a stored response, or by a problem. Rejects only with what `work` throws, and with the
   * reason of `how.signal`.
   *
   * @param how `canRepeat: false` if `work` cannot be called a second time, after a conflict. `signal` gives up `work`. With
   *   `leaseMs`, `work` gets no transaction.
   */
  async answer(request: TakenRequest, work: Work<unknown>, how: HowAnswered = {}): Promise<Answer> {
    return this.#spans.around(request, () => this.#answer(request, work, how))
  }

  async #answer(
    request: TakenRequest,
    work: Work<unknown>,
    { canRepeat = true, signal, leaseMs }: HowAnswered,
  ): Promise<Answer> {
    const found = identified(request, this.settings)
    if (found.kind === 'refused') return this.#problem(request, found.problem, found.error)
    const { timeoutMs, keep } = this.settings
    const how = { timeoutMs, keep, canRepeat, signal }
    if (found.kind === 'keyed' && isUnscoped(request, this.settings)) this.#log.unscoped(request)
    if (leaseMs !== undefined) {
      return this.#underLease(request, found, (about) => work(undefined, about), { leaseMs, signal })
    }
    if (found.kind === 'keyed') {
      return this.#keyed(request, found, (claim) =>
        inTransaction(this.#ports, how, (tx, session, call) => this.#claimed(tx, session, call, claim, work)),
      )
    }
    const ended = await inTransaction(this.#ports, how, async (tx, session, call) => {
      const run = (): Promise<CheckedResponse> =>
        call.run(() => work(tx, { signal: call.signal }), { maxBytes: Infinity })
      return { kind: 'handled' as const, response: await this.#ports.watch(session, run) }
    })
    if (ended.kind === 'failed' && ended.problem === UNAVAILABLE) {
      return this.#problem(request, UNAVAILABLE_WITHOUT_KEY, ended.error)
    }
    return this.#ended(request, ended)
  }

  /** Answers a request whose handler runs without a transaction. */
  async #underLease(
    request: TakenRequest,
    found: KeyedRequest | { readonly kind: 'plain' },
    work: LeasedWork,
    how: HowLeased,
  ): Promise<Answer> {
    if (found.kind === 'keyed') {
      return this.#keyed(request, found, (keyed) => this.#leased.keyed(keyed, work, how))
    }
    const ended = await this.#leased.plain(work, how)
    return ended.kind === 'failed' && ended.problem === UNAVAILABLE_UNDER_LEASE
      ? this.#problem(request, UNAVAILABLE_WITHOUT_KEY, ended.error)
      : this.#ended(request, ended)
  }

  /** Looks until the request is not in flight any more, for as long as it may wait. */
  async #keyed(
    request: HttpRequest,
    keyed: KeyedRequest,
    attempt: (keyed: KeyedRequest) => Promise<Found | Ending>,
  ): Promise<Answer> {
    const waitsUntil = performance.now() + this.settings.waitMs
    for (let look = 0; ; look++) {
      // The transaction of a request in this process need not be asked for.
      const found = this.#flights.get(keyed.claimed.stored) ? IN_FLIGHT_HERE : await attempt(keyed)
      if (found.kind === 'handled' || found.kind === 'failed') return this.#ended(request, found)
      if (found.kind === 'duplicate') return this.#replayed(request, keyed, found.claim)
      const flight = this.#flights.get(keyed.claimed.stored)
      if (flight !== undefined && !keyed.fingerprint.equals(flight.fingerprint)) {
        return this.#problem(request, OTHER_REQUEST)
      }
      const leftMs = waitsUntil - performance.now()
      if (leftMs <= 0) return this.#problem(request, IN_FLIGHT)
      const lookMs = Math.min(leftMs, LONGEST_LOOK_MS, SHORTEST_LOOK_MS * 2 ** Math.min(look, 10))
      await (flight === undefined ? pause(lookMs) : endOf(flight.ended, leftMs))
    }
  }

  /** Claims the request in the transaction, and runs the handler if the claim is won. */
  async #claimed(
    tx: unknown,
    session: Session,
    call: HandlerCall,
    { key, claimed: { stored }, fingerprint, claimed: name }: KeyedRequest,
    work: Work<unknown>,
  ): Promise<Found> {
    const claim: Claim = {
      consumer: HTTP_CONSUMER,
      key: stored,
      correlationId: undefined,
      retentionMs: this.settings.retentionMs,
      contentHash: fingerprint,
    }
    const { inbox } = this.#ports
    const claimed = await inbox.claimToHandle(session, claim, { inFlight: 'report' })
    if (claimed.status === 'duplicate') return { kind: 'duplicate', claim: claimed }
    if (claimed.status === 'in-flight') return { kind: 'in-flight' }
    const about: RequestContext = {
      key,
      idempotencyKey: idempotencyKey(HTTP_CONSUMER, name),
      signal: call.signal,
    }
    call.flight = this.#flights.begin(stored, fingerprint)
    const response = await claimed.run(async () => {
      const given = await call.run(() => work(tx, about), this.settings.form)
      await inbox.saveResult(session, claim, await storedText(given, this.settings.form))
      return given
    })
    return { kind: 'handled', response }
  }

  async #replayed(
    request: HttpRequest,
    { fingerprint }: KeyedRequest,
    { contentHash, result }: StoredClaim,
  ): Promise<Answer> {
    if (contentHash !== undefined && !fingerprint.equals(contentHash)) {
      return this.#problem(request, OTHER_REQUEST)
    }
    if (result === LEASED_MARK) return this.#problem(request, FAILED, underLease())
    const { timeoutMs, form } = this.settings
    const late = (): never => {
      throw new RequestTimeoutError(
        `The option 'seal' did not open a stored response within ${readableDuration(timeoutMs)} (timeoutMs). The handler did not run again.`,
      )
    }
    try {
      const response = await within(storedResponse(result, form.seal), timeoutMs, late)
      return { kind: 'instead', response }
    } catch (error) {
      return this.#problem(request, error instanceof RequestTimeoutError ? UNAVAILABLE : FAILED, error)
    }
  }

  #ended(request: HttpRequest, ended: Ending): Answer {
    return ended.kind === 'handled' ? ended : this.#problem(request, ended.problem, ended.error)
  }

  #problem(request: HttpRequest, problem: Problem, error?: unknown): Answer {
    if (error !== undefined) this.#log.failed(error, request)
    return { kind: 'instead', response: problemResponse(problem, this.settings.documentation) }
  }
}

function underLease(): InvalidOptionError {
  return new InvalidOptionError(
    'A request cannot be handled in a transaction, because handleLeased has claimed its key. The handler did not run. Give handle ' +
      'and handleLeased names of their own: createIdempotency({ name }).',
  )
}

const IN_FLIGHT_HERE: Found = { kind: 'in-flight' }

function endOf(ended: Promise<void>, ms: number): Promise<void> {
  const over = new AbortController()
  void ended.then(() => over.abort())
  return pause(ms, over.signal)
}
