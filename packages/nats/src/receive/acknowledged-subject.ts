/** The parts of the reply subject of a delivery that are used. */
export interface DeliveryInfo {
  /** How often the message was delivered, with this time. */
  readonly deliveries: number
  /** The place of the message in its stream. */
  readonly sequence: number
  readonly storedAt: Date
}

const SHORT_PARTS = 9
const MS = 1_000_000n

/**
 * Reads the subject to which a delivery is acknowledged:
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<sequence>.<consumer sequence>.<time>.<pending>`, in which domain and account may stand before the
 * stream, and more behind.
 *
 * @returns undefined for any other subject.
 */
export function deliveryInfoOf(subject: string | undefined): DeliveryInfo | undefined {
  const parts = subject?.split('.') ?? []
  if (parts[0] !== '$JS' || parts[1] !== 'ACK' || parts.length < SHORT_PARTS) return undefined
  const [deliveries, sequence, , time] = parts.slice(parts.length === SHORT_PARTS ? 4 : 6)
  if (![deliveries, sequence, time].every((part) => part !== undefined && /^\d+$/.test(part)))
    return undefined
  return {
    deliveries: Number(deliveries),
    sequence: Number(sequence),
    storedAt: new Date(Number(BigInt(time!) / MS)),
  }
}
