import { STATUS_CODES } from 'node:http'
import type { HttpResponse } from './http-response.ts'

export interface Problem {
  readonly status: 400 | 409 | 413 | 422 | 500 | 503
  readonly title: string
  readonly detail: string
}

/** When a client should send the request again, in seconds. */
const RETRY_AFTER = '1'

/** Returns problem details of RFC 9457. They never contain the key or the body of a request. */
export function problemResponse(
  { status, title, detail }: Problem,
  documentation: string | undefined,
): HttpResponse {
  // With the type about:blank, the title is the phrase of the status.
  const body =
    documentation === undefined
      ? { type: 'about:blank', title: STATUS_CODES[status], status, detail }
      : { type: documentation, title, status, detail }
  return {
    status,
    headers: {
      'content-type': 'application/problem+json',
      'cache-control': 'no-store',
      ...(status === 409 || status === 503 ? { 'retry-after': RETRY_AFTER } : {}),
      ...(documentation === undefined ? {} : { link: `<${documentation}>; rel="describedby"` }),
    },
    body: Buffer.from(JSON.stringify(body)),
  }
}

export const MISSING: Problem = {
  status: 400,
  title: 'The Idempotency-Key is missing',
  detail:
    'This request requires an idempotency key: one value that is the same for every attempt of the request.',
}

export const OTHER_REQUEST: Problem = {
  status: 422,
  title: 'The Idempotency-Key is already used',
  detail:
    'Another request with the same idempotency key had another content. Use a new key for a new request, and send a request ' +
    'again without changing it.',
}

export const IN_FLIGHT: Problem = {
  status: 409,
  title: 'The request is being handled',
  detail: 'A request with the same idempotency key is being handled. Send this request again later.',
}

export const UNAVAILABLE: Problem = {
  status: 503,
  title: 'The request could not be completed',
  detail:
    'The request was not completed, or its outcome is not known. Send it again with the same idempotency key: it takes effect once.',
}

export const UNAVAILABLE_WITHOUT_KEY: Problem = {
  ...UNAVAILABLE,
  detail:
    'The request was not completed, or its outcome is not known. It has no idempotency key: if it is sent again, it may take ' +
    'effect twice.',
}

export const UNAVAILABLE_UNDER_LEASE: Problem = {
  status: 503,
  title: 'The request could not be completed',
  detail:
    'The request was not completed, or its outcome is not known. Send it again with the same idempotency key: it may be handled again.',
}

export const FAILED: Problem = {
  status: 500,
  title: 'The request failed',
  detail: 'The server could not handle this request. The cause is in the log of the server.',
}

export const INCOMPARABLE: Problem = {
  status: 400,
  title: 'The request cannot be compared',
  detail: 'The body of the request has values that cannot be compared with those of another attempt.',
}

export function tooLarge(maxBytes: number): Problem {
  return {
    status: 413,
    title: 'The request is too large',
    detail: `The body of this request may have at most ${maxBytes} bytes.`,
  }
}

export function refusedKey(title: string, detail: string): Problem {
  return { status: 400, title, detail }
}
