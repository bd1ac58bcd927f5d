import type { HeldDelivery } from './held-delivery.ts'

/** The held deliveries by key, in the order in which they were received. Only the first delivery of a key may run. */
export class KeyLanes {
  /** Called with a delivery that has become the first of its key. */
  whenFirst: (held: HeldDelivery) => void = (held) => void held.proceed()
  readonly #lanes = new Map<string, HeldDelivery[]>()

  /** @returns whether the delivery is the first of its key. Otherwise it proceeds when it has become the first. */
  enter(held: HeldDelivery): boolean {
    const { key } = held.delivery
    if (key === undefined) return true
    const lane = this.#lanes.get(key)
    if (lane === undefined) this.#lanes.set(key, [held])
    else lane.push(held)
    return lane === undefined
  }

  leave(held: HeldDelivery): void {
    const { key } = held.delivery
    if (key === undefined) return
    const lane = this.#laneOf(held)
    const place = lane.indexOf(held)
    if (place >= 0) lane.splice(place, 1)
    if (lane.length === 0) this.#lanes.delete(key)
    else if (place === 0) this.whenFirst(lane[0]!)
  }

  /** @returns whether so many earlier deliveries of its key are held. */
  isBehind(held: HeldDelivery, earlier: number): boolean {
    const lane = this.#laneOf(held)
    return lane.length === 0 ? earlier === 0 : lane[earlier] === held
  }

  /** @returns whether no earlier delivery of its key is held. */
  isFirst(held: HeldDelivery): boolean {
    const [first = held] = this.#laneOf(held)
    return first === held
  }

  /** @returns the deliveries of the same key that were received after this delivery. */
  behind(held: HeldDelivery): readonly HeldDelivery[] {
    const lane = this.#laneOf(held)
    return lane.slice(lane.indexOf(held) + 1)
  }

  #laneOf({ delivery: { key } }: HeldDelivery): HeldDelivery[] {
    return (key === undefined ? undefined : this.#lanes.get(key)) ?? []
  }
}
