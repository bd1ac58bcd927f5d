import { propertyOf } from '@txbox/core/internal'

/** A date and a time in RFC 3339. */
const RFC_3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/i

/** A member of a parsed body that is text and not empty. */
export function textMember(payload: unknown, name: string): string | undefined {
  const value = propertyOf(payload, name)
  return typeof value === 'string' && value !== '' ? value : undefined
}

/** A member of a parsed body that is a time: in RFC 3339, or in seconds since 1970. */
export function timeMember(payload: unknown, name: string): Date | string | undefined {
  const value = propertyOf(payload, name)
  if (typeof value === 'string') return rfc3339(value)
  if (typeof value !== 'number') return undefined
  const time = new Date(value * 1000)
  return Number.isNaN(time.getTime()) ? undefined : time
}

/** The text, if it is a time in RFC 3339. */
export function rfc3339(text: string | undefined): string | undefined {
  if (text === undefined || !RFC_3339.test(text)) return undefined
  return Number.isNaN(Date.parse(text.toUpperCase())) ? undefined : text
}
