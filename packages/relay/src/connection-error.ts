/** Codes of Node.js, and of undici, which is behind `fetch`, for a connection that was not made or that broke. */
const CODES = new Set([
  ...['ECONNREFUSED', 'ECONNRESET', 'ECONNABORTED', 'EPIPE', 'ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH'],
  ...['EHOSTDOWN', 'ENETDOWN', 'ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL'],
  ...['UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_SOCKET', 'UND_ERR_CLOSED', 'UND_ERR_DESTROYED'],
])

/** The maximum depth of causes that are followed. */
const CAUSE_LEVELS = 5

/**
 * Returns whether this is a connection error, or caused by one. Follows `cause` and the `errors` of an AggregateError.
 */
export function isConnectionError(error: unknown, levels = CAUSE_LEVELS): boolean {
  if (typeof error !== 'object' || error === null || levels === 0) return false
  try {
    if (CODES.has(String(Reflect.get(error, 'code')))) return true
    const errors: unknown = Reflect.get(error, 'errors')
    const causes = [Reflect.get(error, 'cause'), ...(Array.isArray(errors) ? errors.slice(0, 10) : [])]
    return causes.some((cause) => isConnectionError(cause, levels - 1))
  } catch {
    // An error whose getter throws does not count as a connection error.
    return false
  }
}
