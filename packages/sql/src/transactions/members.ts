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

const SHOWN_MEMBERS = 6

/**
 * Describes the members of a value, so that its author can recognize it. Only names are shown, because values may be
 * secret.
 */
export function membersOf(value: unknown): string {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return ''
  try {
    const names = new Set<string>()
    for (
      let at: object | null = value;
      at !== null && at !== Object.prototype;
      at = Object.getPrototypeOf(at)
    ) {
      for (const name of Object.getOwnPropertyNames(at)) if (NAME.test(name)) names.add(name)
      if (at === Function.prototype || names.size > SHOWN_MEMBERS) break
    }
    const listed = [...names].slice(0, SHOWN_MEMBERS)
    if (listed.length === 0) return ''
    return ` (with ${listed.join(', ')}${names.size > SHOWN_MEMBERS ? ', …' : ''})`
  } catch {
    // A proxy may refuse to list its members.
    return ''
  }
}

/** Matches public members only, and no text that other code has chosen. */
const NAME = /^(?!constructor$|length$|name$|prototype$)[$a-zA-Z][$\w]{0,39}$/
