import type { Logger, Telemetry } from '@txbox/core'
import type { HttpRequest, RequestContext } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'
import type { LeaseOptions } from './lease-option.ts'
import type { Seal } from '../response/seal.ts'

export interface IdempotencyOptions {
  /** Keys of two names are different keys. 1 to 100 characters. @default 'http' */
  name?: string | undefined
  /** The methods that take a key. All other methods pass: a key on them is ignored. @default ['POST', 'PATCH'] */
  methods?: readonly string[] | undefined
  /** Whether a request of these methods without a key is refused with 400. @default true */
  required?: boolean | undefined
  /**
   * How long a response is replayed, counted from the first request by the database's clock, in milliseconds: 1 minute to 10
   * years. After this time, the key is new. @default 1 day
   */
  retentionMs?: number | undefined
  /**
   * How long a handler may take, in milliseconds: 100 ms to 1 hour. Then its transaction is rolled back, and the answer is 503.
   * A statement in flight may delay the rollback (`statement_timeout`, `max_execution_time`). @default 30_000
   */
  timeoutMs?: number | undefined
  /**
   * Takes the key from another part of the request than the header `Idempotency-Key`, such as a member of the body or the id of
   * a webhook. `undefined` means that the request has no key; empty text or another type is refused with 400, and what the function
   * throws is a 500. @default the header
   */
  key?: ((request: HttpRequest) => string | undefined) | undefined
  /**
   * Returns who sends the request, such as the id of an account: tenants have separate keys. Without it, two users who send the
   * same key and the same request get the same response. `native` of the request is what the authentication has set its result on:
   * `({ native }) => (native as FastifyRequest).account`. A tenant that is `undefined` or empty is a 500, and nothing runs.
   *
   * @default one tenant
   */
  tenant?: ((request: HttpRequest) => string | undefined) | undefined
  /**
   * Returns the text by which two requests with one key are compared; requests that differ are refused with 422.
   *
   * @default the method, the path with its query, and the body; JSON in its canonical form (RFC 8785)
   */
  fingerprint?: ((request: HttpRequest) => string) | undefined
  /**
   * What happens to a request while another request with its key is being handled. `'refuse'`: 409 at once. `{ waitMs }`: the
   * request waits for the end of the other one, without a connection, and gets 409 when the time is over. 1 ms to 10 minutes.
   *
   * @default 'refuse'
   */
  whileInFlight?: 'refuse' | { readonly waitMs: number } | undefined
  /** A longer key is refused with 400. 1 to 1000. @default 255 */
  maxKeyCharacters?: number | undefined
  /**
   * A longer body of a request with a key is refused with 413, and so is one without a key if `key` is set, or if Express and
   * NestJS have no parser before. 1 byte to 64 MiB. @default 1 MiB
   */
  maxRequestBytes?: number | undefined
  /**
   * A longer body of a response to a request with a key is rolled back, and the answer is 500, whatever `keep` says. 1 byte to
   * 1 MiB. @default 256 KiB
   */
  maxResponseBytes?: number | undefined
  /**
   * Whether a response with this status is stored and its transaction committed. Otherwise the transaction is rolled back, and
   * the response is sent as it is: the next request runs the handler again. Decides also for requests without a key.
   *
   * @default status < 500
   */
  keep?: ((status: number) => boolean) | undefined
  /**
   * Encrypts what is stored. A response that cannot be opened is a 500, one that is not opened within `timeoutMs` a 503: neither
   * runs the handler again. @default none
   */
  seal?: Seal | undefined
  /**
   * Names of headers that are replayed, besides content-type, content-encoding, content-language, content-location, location,
   * etag, link and cache-control. Set-Cookie and the headers of a connection are never replayed. @default none
   */
  replayHeaders?: readonly string[] | undefined
  /** The address of your documentation: the `type` of problems, and a link with the relation `describedby`. @default none */
  documentation?: string | undefined
  /**
   * Gets a line for each `error`. Without a logger and a listener, the first one is a process warning; `false` suppresses it.
   *
   * @default no log
   */
  logger?: Logger | false | undefined
  /**
   * The telemetry that receives traces and metrics: each request is answered in a span `process <name>`, in which the handler runs.
   *
   * @default the telemetry that is registered for the process, such as by `import '@txbox/opentelemetry/register'`
   */
  telemetry?: Telemetry | undefined
  /**
   * How the span of a request is related to the header `traceparent` of the request. `'message'`: the span is part of that trace: a
   * child of the code that is running, such as the span of an instrumented server, if that is part of it too. `'link'`: the span is
   * part of the trace of the code that is running, or begins one, and is linked to the other one.
   *
   * @default 'message'
   */
  parent?: 'message' | 'link' | undefined
}

export interface IdempotencyEvents {
  /**
   * A request was answered with 500 or 503 instead of its handler's response, because of the database, the handler's time, its
   * response, or a function of the options. An error that the handler throws is not reported here: `handle` rejects with it.
   */
  error: { readonly error: unknown; readonly method?: string; readonly route?: string }
}

/** The work of a request, in the transaction that stores the response. What it throws rolls the transaction back. */
export type Work<Tx> = (tx: Tx, about: RequestContext) => Promise<HttpResponse> | HttpResponse

/** The work of a request without a transaction, such as a call of another system. */
export type LeasedWork = (about: RequestContext) => Promise<HttpResponse> | HttpResponse

/** Handles each request once, and replays its response to the attempts that follow. */
export interface Idempotency<Tx> {
  /** The option `name`. */
  readonly name: string
  /**
   * Runs `work` in a transaction, stores its response, commits, and returns the response. For a request that was handled before,
   * returns the stored response, and does not call `work`. Refusals and failures of the database are responses with problem
   * details (RFC 9457). After a conflict in the database, `work` is called again, at most five times in all.
   *
   * Rejects only with what `work` throws; its transaction is then rolled back, and the next request runs.
   */
  handle(request: HttpRequest, work: Work<Tx>): Promise<HttpResponse>
  /**
   * Like `handle`, for a handler that calls another system, such as a payment provider. The claim of the key commits first, as a lease
   * in the table `dedup_leases`; `work` runs without a transaction; then its response is stored. The effect happens **at least once**:
   * pass `about.idempotencyKey` to the other system, which makes it once there.
   *
   * - The lease is extended after each third of it, by the database's clock. When it is lost, `about.signal` is aborted, nothing is
   *   stored, and the answer is 503.
   * - After a crash, the next request runs when the lease has passed, with the same `about.idempotencyKey`. Until then it gets 409.
   * - If `work` throws, takes longer than `timeoutMs`, or returns a response that is not kept or cannot be stored, the lease is
   *   released at once, and the next request runs. A handler that goes on after its signal was aborted may run beside the next one.
   * - A response is replayed for `retentionMs` from when it was stored. `work` is never called twice for one request.
   * - `handle` and `handleLeased` of one `name` refuse each other's keys with 500.
   *
   * Rejects only with what `work` throws, and with `InvalidOptionError` for wrong options.
   */
  handleLeased(request: HttpRequest, work: LeasedWork, options?: LeaseOptions): Promise<HttpResponse>
  /** Adds a listener. @returns a function that removes it. */
  on<E extends keyof IdempotencyEvents>(
    event: E,
    listener: (event: IdempotencyEvents[E]) => unknown,
  ): () => void
}
