import { collectBody } from './collect-body.ts'
import type { HttpRequest } from '../request/http-request.ts'
import type { HttpResponse } from '../response/http-response.ts'

/** Statuses whose responses have no body. */
const BODILESS = new Set([204, 205, 304])

export async function readBody(
  { body }: Request | Response,
  maxBytes: number,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  return body === null ? new Uint8Array() : collectBody(body, maxBytes, signal)
}

/** @param body the bytes, cut at one byte beyond the limit. The handler can read all of them from the request. */
export function requestOfFetch(request: Request, body: Uint8Array): HttpRequest {
  const { pathname, search } = new URL(request.url)
  const { method, headers } = request
  return { method, path: `${pathname}${search}`, headers, body, native: request }
}

/** @param maxBytes `undefined` leaves the body unread. */
export async function responseOfFetch(
  response: Response,
  maxBytes: number | undefined,
  signal: AbortSignal,
): Promise<HttpResponse> {
  const headers: Record<string, string | readonly string[]> = Object.fromEntries(response.headers)
  const cookies = response.headers.getSetCookie()
  if (cookies.length > 0) headers['set-cookie'] = cookies
  const body = maxBytes === undefined ? '' : await readBody(response, maxBytes, signal)
  return { status: response.status, headers, body }
}

export function sentResponse({ status, headers: given = {}, body }: HttpResponse): Response {
  const headers = new Headers()
  for (const [name, value] of Object.entries(given)) {
    for (const line of [value].flat()) headers.append(name, line)
  }
  return new Response(BODILESS.has(status) ? null : (body as Uint8Array<ArrayBuffer> | undefined), {
    status,
    headers,
  })
}
