import { validateHeaderName, validateHeaderValue } from 'node:http'
import { InvalidMessageError } from '@txbox/core'
import { nameOf, reasonOf } from '@txbox/core/internal'
import type { HttpResponse } from './http-response.ts'

/** A response whose parts have been checked. Names of headers are in lower case. */
export interface CheckedResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  readonly body: Uint8Array
}

/**
 * Checks everything that could fail when the response is sent, because a stored response would fail at each replay.
 *
 * @param maxBytes the limit of the body. A plug-in may have cut a larger body.
 * @throws {InvalidMessageError} for a response that cannot be sent, or whose body is too large.
 */
export function checkedResponse(response: HttpResponse, maxBytes: number): CheckedResponse {
  if (typeof response !== 'object' || response === null) {
    throw refused(`expected an object with a status, not ${nameOf(response)}`)
  }
  const { status } = response
  const body = response.body ?? ''
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw refused(`its status must be a whole number from 200 to 599, not ${nameOf(status)}`)
  }
  if (typeof body !== 'string' && !(body instanceof Uint8Array)) {
    throw refused(`its body must be text or bytes, not ${nameOf(body)}`)
  }
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  if (bytes.byteLength > maxBytes) {
    throw refused(`its body is larger than ${maxBytes} bytes (maxResponseBytes)`)
  }
  const headers: Record<string, string | readonly string[]> = {}
  for (const [name, value] of Object.entries(response.headers ?? {})) {
    if (value === undefined) continue
    headers[name.toLowerCase()] = checkedHeader(name, value)
  }
  return { status, headers, body: bytes }
}

function checkedHeader(name: string, value: unknown): string | readonly string[] {
  const lines = (Array.isArray(value) ? value : [value]).map(String)
  try {
    validateHeaderName(name)
    for (const line of lines) validateHeaderValue(name, line)
  } catch (cause) {
    // The error of Node contains the name, and never the value.
    throw refused(`it has a header that cannot be sent: ${reasonOf(cause, 200)}`)
  }
  return Array.isArray(value) ? lines : lines[0]!
}

export function refused(why: string): InvalidMessageError {
  return new InvalidMessageError(`The response of the handler cannot be stored: ${why}. Nothing was written.`)
}
