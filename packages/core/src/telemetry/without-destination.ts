import { ATTRIBUTES } from './names.ts'
import type { Attributes } from './telemetry.ts'

/** The attributes of a metric without the topic or queue, which would make a time series of each. */
export function withoutDestination(attributes: Attributes): Attributes {
  if (!Object.hasOwn(attributes, ATTRIBUTES.destination)) return attributes
  const { [ATTRIBUTES.destination]: _, ...rest } = attributes
  return rest
}
