import { propertyOf } from '../errors/property-of.ts'

const MOST_CHARACTERS = 100

/** The attribute `error.type`: the code of an error, or the name of its class, which are few. */
export function errorTypeOf(error: unknown): string {
  for (const property of ['code', 'name']) {
    const value = propertyOf(error, property)
    if (typeof value === 'number') return String(value)
    if (typeof value === 'string' && /^[\x21-\x7e]+$/.test(value)) return value.slice(0, MOST_CHARACTERS)
  }
  return '_OTHER'
}
