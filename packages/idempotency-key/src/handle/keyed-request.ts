import { InvalidOptionError } from '@txbox/core'
import { inboxKey, nameOf, type InboxKey } from '@txbox/core/internal'
import { headerLines, type HttpRequest, type TakenRequest } from '../request/http-request.ts'
import type { IdempotencySettings } from './idempotency-settings.ts'
import { FAILED, INCOMPARABLE, MISSING, refusedKey, tooLarge, type Problem } from '../response/problems.ts'
import {
  givenFingerprint,
  IncomparableBodyError,
  requestFingerprint,
} from '../request/request-fingerprint.ts'
import { keyOfHeader, keyOfOption, type RequestKey } from '../request/request-key.ts'

/** Claims of HTTP requests. An inbox of a user cannot have this name. */
export const HTTP_CONSUMER = '@http'

/** A request whose response is stored. */
export interface KeyedRequest {
  readonly kind: 'keyed'
  /** As the client sent it. */
  readonly key: string
  /** The name of the application, method, path, tenant and key. */
  readonly claimed: InboxKey
  readonly fingerprint: Buffer
}

type Identified =
  | KeyedRequest
  /** The request has no key, or its method takes none. */
  | { readonly kind: 'plain' }
  | { readonly kind: 'refused'; readonly problem: Problem; readonly error?: unknown }

/** Decides what a request is, without the database. */
export function identified(request: TakenRequest, settings: IdempotencySettings): Identified {
  if (!settings.methods.has(request.method)) return { kind: 'plain' }
  const isTooLarge = request.body.byteLength > settings.maxRequestBytes
  // The option `key` may look into the body, of which a plug-in has cut the rest.
  if (request.isTooLarge === true || (isTooLarge && settings.key !== undefined)) {
    return refused(tooLarge(settings.maxRequestBytes))
  }
  try {
    const found = keyOf(request, settings)
    if (found.kind === 'refused') return refused(refusedKey(found.title, found.detail))
    if (found.kind === 'none') return settings.required ? refused(MISSING) : { kind: 'plain' }
    if (isTooLarge) return refused(tooLarge(settings.maxRequestBytes))
    return {
      kind: 'keyed',
      key: found.key,
      claimed: inboxKey([...scopeOf(request, settings), found.key], HTTP_CONSUMER),
      fingerprint: fingerprintOf(request, settings),
    }
  } catch (error) {
    return error instanceof IncomparableBodyError ? refused(INCOMPARABLE) : refused(FAILED, error)
  }
}

/** Returns whether one user could get the response of another one: the request shows who sends it, and nobody asks for that. */
export function isUnscoped(request: HttpRequest, { tenant }: IdempotencySettings): boolean {
  if (tenant !== undefined) return false
  return ['authorization', 'cookie'].some((name) => headerLines(request, name) !== undefined)
}

function keyOf(request: HttpRequest, { key, maxKeyCharacters }: IdempotencySettings): RequestKey {
  return key === undefined
    ? keyOfHeader(request, maxKeyCharacters)
    : keyOfOption(key(request), maxKeyCharacters)
}

function scopeOf(request: HttpRequest, { name, tenant }: IdempotencySettings): [string, ...string[]] {
  const path = request.path.split('?', 1)[0]!
  const scope: [string, ...string[]] = [name, request.method, path === '' ? '/' : path]
  if (tenant === undefined) return scope
  const of = tenant(request)
  if (typeof of === 'string' && of !== '') return [...scope, of]
  throw new InvalidOptionError(
    `The option 'tenant' returned ${of === '' ? 'an empty text' : nameOf(of)} for a request with a key. The handler did not run. Return ` +
      'the tenant of every request that may reach the handler.',
  )
}

function fingerprintOf(request: HttpRequest, { fingerprint }: IdempotencySettings): Buffer {
  if (fingerprint === undefined) return requestFingerprint(request)
  const text = fingerprint(request)
  if (typeof text === 'string') return givenFingerprint(text)
  throw new InvalidOptionError(
    `The option 'fingerprint' returned ${nameOf(text)} instead of text. The handler did not run.`,
  )
}

function refused(problem: Problem, error?: unknown): Identified {
  return error === undefined ? { kind: 'refused', problem } : { kind: 'refused', problem, error }
}
