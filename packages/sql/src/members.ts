import { propertyOf } from '@txbox/core/internal'

/*
 * The objects of libraries are recognized by their members, because no library is imported. A handle may be a proxy of
 * a transaction on which only `get` works.
 */

export function hasFunction(value: unknown, name: PropertyKey): boolean {
  return typeof propertyOf(value, name) === 'function'
}

export function hasObject(value: unknown, name: PropertyKey): boolean {
  const member = propertyOf(value, name)
  return typeof member === 'object' && member !== null
}

export function hasBoolean(value: unknown, name: PropertyKey): boolean {
  return typeof propertyOf(value, name) === 'boolean'
}

export function hasNumber(value: unknown, name: PropertyKey): boolean {
  return typeof propertyOf(value, name) === 'number'
}
