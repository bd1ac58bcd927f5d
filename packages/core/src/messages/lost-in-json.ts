import { propertyOf } from '../errors/property-of.ts'

/**
 * Returns whether a value loses its content in JSON, which is no error of `JSON.stringify`: a promise that was not awaited,
 * a Map, a Set, an ArrayBuffer, an Error. A value with a `toJSON` says itself what its content is.
 *
 * @param text the JSON text of the value.
 */
export function isLostInJson(value: unknown, text: string | undefined): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (typeof propertyOf(value, 'toJSON') === 'function') return false
  if (typeof propertyOf(value, 'then') === 'function') return true
  const tag = Object.prototype.toString.call(value)
  return tag === '[object Error]' || (text === '{}' && tag !== '[object Object]')
}
