import { hash } from 'node:crypto'
import { InvalidMessageError } from '@txbox/core'
import { canonicalJson } from '@txbox/core/internal'
import { parseExactly } from './exact-json.ts'
import { hasJsonBody, mediaType, type HttpRequest } from './http-request.ts'

/** JSON of the client has no canonical form, because it is nested too deeply or has a lone surrogate. */
export class IncomparableBodyError extends Error {}

/** Stands for the parsed body of a request whose body was consumed, and is not known. */
export const UNREAD: unique symbol = Symbol('unread')

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** The media type of forms, whose parsers keep the whole body. */
const WHOLE_IN_A_PARSER = 'application/x-www-form-urlencoded'

/**
 * Returns the SHA-256 of method, path with its query, and body. JSON is compared in its canonical form (RFC 8785), unless it
 * does not come back exactly from a parser: then, and for all other media types, the bytes are compared.
 *
 * @throws {InvalidMessageError} when there are no bytes, and the parsed body is not JSON, or may be only a part of the body.
 * @throws {IncomparableBodyError} when there are no bytes, and the parsed body is JSON without a canonical form.
 */
export function requestFingerprint(request: HttpRequest): Buffer {
  const [kind, body] = comparedBody(request)
  const about = JSON.stringify([request.method, request.path, kind])
  const hashed = typeof body === 'string' ? `${about}${body}` : Buffer.concat([Buffer.from(about), body])
  return hash('sha256', hashed, 'buffer')
}

/** Returns the SHA-256 of what the option `fingerprint` has returned. */
export function givenFingerprint(text: string): Buffer {
  return hash('sha256', `given:${text}`, 'buffer')
}

function comparedBody(request: HttpRequest): ['json' | 'bytes', Uint8Array | string] {
  const { body, parsedBody } = request
  if (body.byteLength === 0 && parsedBody !== undefined) {
    const isWhole = hasJsonBody(request) || mediaType(request) === WHOLE_IN_A_PARSER
    if (!isWhole || parsedBody === UNREAD) {
      throw new InvalidMessageError(
        'The body of the request was parsed before, and its bytes are needed to compare it with other attempts. Let the ' +
          'idempotency key come before the parser, or pass the bytes.',
      )
    }
    return ['json', canonicalValue(parsedBody)]
  }
  const canonical = hasJsonBody(request) ? canonicalBytes(body) : undefined
  return canonical === undefined ? ['bytes', body] : ['json', canonical]
}

function canonicalValue(value: unknown): string {
  try {
    return canonicalJson(value)
  } catch (cause) {
    // What is not JSON comes from a parser of the server.
    if (!isJson(value)) throw cause
    throw new IncomparableBodyError('The parsed body of the request has no canonical form.', { cause })
  }
}

function isJson(value: unknown): boolean {
  const found = new Set<unknown>([value])
  // The iteration also reaches what is added meanwhile.
  for (const one of found) {
    if (one === null || one === undefined || typeof one === 'string' || typeof one === 'boolean') continue
    if (typeof one === 'number' && Number.isFinite(one)) continue
    const isObject = Object.prototype.toString.call(one) === '[object Object]'
    if (!isObject && !Array.isArray(one)) return false
    for (const inside of Object.values(one)) found.add(inside)
  }
  return true
}

function canonicalBytes(body: Uint8Array): string | undefined {
  try {
    const parsed = parseExactly(UTF8.decode(body))
    return parsed === undefined ? undefined : canonicalJson(parsed.value)
  } catch {
    // The text is not UTF-8, or is nested too deeply: its bytes are compared.
    return undefined
  }
}
