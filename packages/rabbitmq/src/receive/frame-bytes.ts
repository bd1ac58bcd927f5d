import type { Options } from 'amqplib'

/** The frame and the content header without properties, and the properties of fixed sizes. */
const FIXED_BYTES = 8 + 14 + 16

/**
 * Returns the size of the frame with the properties of a message, which AMQP cannot split over several frames. For a larger frame
 * than the connection allows, the broker would close the connection.
 */
export function frameBytes({ headers, ...properties }: Options.Publish): number {
  let bytes = FIXED_BYTES + valueBytes(headers ?? {})
  for (const value of Object.values(properties)) {
    if (typeof value === 'string') bytes += 1 + Buffer.byteLength(value)
  }
  return bytes
}

/** The length and the type of each value are part of its size. A number has 8 bytes at most. */
function valueBytes(value: unknown): number {
  if (typeof value === 'string') return 5 + Buffer.byteLength(value)
  if (value instanceof Uint8Array) return 5 + value.byteLength
  if (typeof value !== 'object' || value === null) return 9
  let bytes = 5
  for (const [name, member] of Object.entries(value)) {
    bytes += valueBytes(member) + (Array.isArray(value) ? 0 : 1 + Buffer.byteLength(name))
  }
  return bytes
}
