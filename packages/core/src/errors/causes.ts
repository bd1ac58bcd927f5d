import { propertyOf } from './property-of.ts'

/** The search ends after about this many errors: an AggregateError may contain thousands, and a getter may create new ones. */
const MOST_ERRORS = 30

/**
 * Yields the error and its causes, nearest first, each once. Libraries keep the driver's error as `cause`, Sequelize 6 as
 * `parent`, and Prisma in `meta`. Never throws, whatever `error` is.
 *
 * @param aggregated how many of the `errors` of an AggregateError count as causes. @default 0
 */
export function* withCauses(error: unknown, aggregated = 0): Generator<object> {
  const found = new Set([error])
  for (const at of found) {
    if (typeof at !== 'object' || at === null) continue
    yield at
    if (found.size > MOST_ERRORS) continue
    found.add(
      propertyOf(at, 'cause') ??
        propertyOf(at, 'parent') ??
        propertyOf(propertyOf(at, 'meta'), 'driverAdapterError'),
    )
    for (const each of aggregatedErrors(at, aggregated)) found.add(each)
  }
}

export function isCausedBy(error: unknown, holds: (error: object) => boolean, aggregated = 0): boolean {
  for (const at of withCauses(error, aggregated)) if (holds(at)) return true
  return false
}

/** Returns an empty list if the list of the error cannot be read. */
export function aggregatedErrors(error: unknown, most: number): readonly unknown[] {
  const errors = most === 0 ? undefined : propertyOf(error, 'errors')
  try {
    return Array.isArray(errors) ? [...errors.slice(0, most)] : []
  } catch {
    return []
  }
}
