/** Larger messages, and those with cycles, take the slower walk, which copies each object once. */
const MOST_OBJECTS = 100_000

/**
 * Copies a message, so that the next attempt of a handler sees what this attempt sees: plain objects and arrays, as JSON has
 * them, and bytes are copied; any other object is shared with the copy. An object that is a message by its class is returned
 * as it is, and so is a message that cannot be read, because one of its getters throws.
 */
export function copyMessage<M>(message: M): M {
  try {
    return copyTree(message, { left: MOST_OBJECTS }) as M
  } catch {
    // The message has too many objects, is nested deeper than the stack, has a cycle, or cannot be read.
  }
  try {
    return copyGraph(message) as M
  } catch {
    // A message that cannot be copied is passed on itself.
    return message
  }
}

function copyTree(value: unknown, budget: { left: number }): unknown {
  if (typeof value !== 'object' || value === null) return value
  const copy = shallowCopyOf(value)
  if (copy === value || copy instanceof Uint8Array) return copy
  if (--budget.left < 0) throw new RangeError('The message has too many objects.')
  if (Array.isArray(copy)) {
    for (let n = 0; n < copy.length; n++) {
      const member: unknown = copy[n]
      if (typeof member === 'object' && member !== null) copy[n] = copyTree(member, budget)
    }
    return copy
  }
  const members = copy as Record<string, unknown>
  // `for … in` takes a third less time than Object.keys here. The prototype of a copy has no names of its own.
  for (const name in members) {
    const member = members[name]
    if (typeof member === 'object' && member !== null) members[name] = copyTree(member, budget)
  }
  return copy
}

/** Copies each object once, without recursion. */
function copyGraph(root: unknown): unknown {
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
  const copied = copyOf(root)
  for (let container = pending.pop(); container !== undefined; container = pending.pop()) {
    const members = container as Record<string, unknown>
    for (const name of Object.keys(members)) members[name] = copyOf(members[name])
  }
  return copied
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
