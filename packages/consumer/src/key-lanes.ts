import type { DeliverySlot } from './delivery-slot.ts'

/** The deliveries in hand by key, in the order received: only the first of a key may run. */
export class KeyLanes {
  readonly #lanes = new Map<string, Set<DeliverySlot>>()

  /** @returns whether the delivery is the first of its key. */
  enter(slot: DeliverySlot): boolean {
    const { key } = slot.delivery
    if (key === undefined) return true
    const lane = this.#lanes.get(key) ?? new Set()
    this.#lanes.set(key, lane.add(slot))
    return firstOf(lane) === slot
  }

  /** @returns the delivery that is the first of the key now, and was not before. */
  leave(slot: DeliverySlot): DeliverySlot | undefined {
    const { key } = slot.delivery
    const lane = key === undefined ? undefined : this.#lanes.get(key)
    if (key === undefined || lane === undefined) return undefined
    const wasFirst = firstOf(lane) === slot
    lane.delete(slot)
    if (lane.size === 0) this.#lanes.delete(key)
    return wasFirst ? firstOf(lane) : undefined
  }

  /** @returns whether no earlier delivery of its key is in hand. */
  isFirst(slot: DeliverySlot): boolean {
    const { key } = slot.delivery
    const lane = key === undefined ? undefined : this.#lanes.get(key)
    return lane === undefined || firstOf(lane) === slot
  }

  /** @returns the deliveries of the same key that were received after this one. */
  behind(slot: DeliverySlot): readonly DeliverySlot[] {
    const { key } = slot.delivery
    const lane = [...((key === undefined ? undefined : this.#lanes.get(key)) ?? [])]
    return lane.slice(lane.indexOf(slot) + 1)
  }
}

function firstOf(lane: ReadonlySet<DeliverySlot>): DeliverySlot | undefined {
  const [first] = lane
  return first
}
