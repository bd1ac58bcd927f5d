import { propertyOf } from '@txbox/core/internal'

/** Returns whether the value is a stream of Node or of the web, or a `Response` of fetch. */
export function isStream(value: unknown): boolean {
  return (
    ['pipe', 'getReader'].some((name) => typeof propertyOf(value, name) === 'function') || isResponse(value)
  )
}

export function isResponse(value: unknown): value is Response {
  return Object.prototype.toString.call(value) === '[object Response]'
}
