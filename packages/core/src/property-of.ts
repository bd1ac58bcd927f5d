/** A property of whatever was thrown, or `undefined` where there is none or reading it throws. */
export function propertyOf(value: unknown, name: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined
  try {
    return Reflect.get(value, name)
  } catch {
    return undefined
  }
}
