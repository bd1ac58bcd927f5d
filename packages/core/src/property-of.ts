/** A property of a thrown value; `undefined` if there is no such property or reading the property throws. */
export function propertyOf(value: unknown, name: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    return Reflect.get(value, name)
  } catch {
    return undefined
  }
}
