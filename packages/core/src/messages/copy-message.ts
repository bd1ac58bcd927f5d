/**
 * Copies a message, so that the next attempt of a handler sees what this attempt sees: plain objects and arrays, as JSON has
 * them, and bytes are copied; any other object is shared with the copy. An object that is a message by its class is returned
 * as it is, and so is a message that cannot be read, because one of its getters throws.
 *
 * The walk has no recursion, because JSON may be nested deeper than the stack.
 */
export function copyMessage<M>(message: M): M {
  const copies = new Map<object, object>()
  const pending: object[] = []
  const copyOf = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value
    const known = copies.get(value)
    if (known !== undefined) return known
    const copy = shallowCopyOf(value)
    if (copy === value) return value
    copies.set(value, copy)
    if (!(copy instanceof Uint8Array)) pending.push(copy)
    return copy
  }
  try {
    const copied = copyOf(message) as M
    for (let container = pending.pop(); container !== undefined; container = pending.pop()) {
      if (Array.isArray(container)) container.forEach((value, n) => (container[n] = copyOf(value)))
      else copyMembers(container as Record<string, unknown>, copyOf)
    }
    return copied
  } catch {
    return message
  }
}

function copyMembers(container: Record<string, unknown>, copyOf: (value: unknown) => unknown): void {
  for (const name of Object.keys(container)) {
    const value = container[name]
    // A text needs no assignment, which would cost as much as the rest of the walk.
    if (typeof value === 'object' && value !== null) container[name] = copyOf(value)
  }
}

function shallowCopyOf(value: object): object {
  if (Array.isArray(value)) return Object.getPrototypeOf(value) === Array.prototype ? value.slice() : value
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype === Object.prototype) return { ...value }
  if (prototype === null) return Object.assign(Object.create(null) as object, value)
  return value instanceof Uint8Array ? copyBytes(value) : value
}

/** Copies bytes into memory of their own. `slice` of a Buffer would return a view. @returns an object of the same class. */
export function copyBytes<B extends Uint8Array>(bytes: B): B {
  return Uint8Array.prototype.slice.call(bytes) as B
}
