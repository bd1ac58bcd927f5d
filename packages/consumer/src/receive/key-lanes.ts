import type { DeliverySlot } from './delivery-slot.ts'

/** The held deliveries by key, in the order in which they were received. Only the first delivery of a key may run. */
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

  /** @returns the delivery that has become the first of the key, if the removed delivery was the first. */
  leave(slot: DeliverySlot): DeliverySlot | undefined {
    const { key } = slot.delivery
    const lane = key === undefined ? undefined : this.#lanes.get(key)
    if (key === undefined || lane === undefined) return undefined
    const wasFirst = firstOf(lane) === slot
    lane.delete(slot)
    if (lane.size === 0) this.#lanes.delete(key)
    return wasFirst ? firstOf(lane) : undefined
  }

  /** @returns whether no earlier delivery of its key is held. */
  isFirst(slot: DeliverySlot): boolean {
    const { key } = slot.delivery
    const lane = key === undefined ? undefined : this.#lanes.get(key)
    return lane === undefined || firstOf(lane) === slot
  }

  /** @returns the deliveries of the same key that were received after this delivery. */
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
