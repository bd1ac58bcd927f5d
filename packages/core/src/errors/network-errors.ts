import { isCausedBy } from './causes.ts'
import { propertyOf } from './property-of.ts'

/** Codes of Node.js, and of undici, which is behind `fetch`, for a connection that was not made or that broke. */
export const NETWORK_CODES: readonly string[] = [
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'],
  ...['EHOSTDOWN', 'ENETDOWN', 'ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL'],
  ...['UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_SOCKET', 'UND_ERR_CLOSED', 'UND_ERR_DESTROYED'],
]
const CODES: ReadonlySet<unknown> = new Set(NETWORK_CODES)

/** Returns whether this is a connection error, or caused by one, also inside an AggregateError. */
export function isConnectionError(error: unknown): boolean {
  return isCausedBy(error, (at) => CODES.has(propertyOf(at, 'code')), 10)
}
