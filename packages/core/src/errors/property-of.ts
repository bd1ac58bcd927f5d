/** A property of any value; `undefined` if there is no such property or reading the property throws. */
export function propertyOf(value: unknown, name: PropertyKey): unknown {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return undefined
  try {
    return (value as Readonly<Record<PropertyKey, unknown>>)[name]
  } catch {
    return undefined
  }
}
