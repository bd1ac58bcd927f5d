import { oneLine } from './one-line.ts'

/** Describes a value without its content, which may be a secret: only numbers, booleans and class names are shown. */
export function nameOf(value: unknown): string {
  if (value === undefined || value === null || typeof value === 'number' || typeof value === 'boolean') {
    return String(value)
  }
  if (typeof value === 'bigint') return oneLine(`${value}n`, 100)
  if (typeof value === 'string')
    return value === '' ? 'an empty string' : `a string of ${value.length} characters`
  if (typeof value === 'object') {
    const name = classOf(value)
    return name === '' || name === 'Object' ? 'an object' : `an object of class ${oneLine(name, 100)}`
  }
  return `a ${typeof value}`
}

/**
 * Returns the name of the class of an object; empty if it has none. Reads the name from the prototype, because an own property
 * named `constructor` may come from a message.
 */
export function classOf(value: object): string {
  try {
    const prototype: unknown = Object.getPrototypeOf(value)
    if (typeof prototype !== 'object' || prototype === null) return ''
    const constructor: unknown = Reflect.get(prototype, 'constructor')
    // A class may have a static member called `name`, of any kind.
    const name: unknown = typeof constructor === 'function' ? constructor.name : ''
    return typeof name === 'string' ? name : ''
  } catch {
    return ''
  }
}
