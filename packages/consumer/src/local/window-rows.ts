import type { LocalMessage, ReadLimits } from '@txbox/core/ports'
import { KeyLane, laneIdOf, rowId, type WindowRow } from './key-lane.ts'
import type { ReadCursor } from './read-cursor.ts'

/** The rows that a window knows, by key. */
export class WindowRows {
  readonly #limits: ReadLimits
  readonly #cursor: ReadCursor
  readonly #rows = new Map<string, WindowRow>()
  readonly #lanes = new Map<string, KeyLane>()
  /** The lanes whose first row may begin, those that have been ready the longest first. */
  readonly ready = new Set<KeyLane>()
  /** The number of rows that are held, and the size of their payloads. */
  readonly held = { messages: 0, bytes: 0 }
  /** The same of the rows that are being parked. */
  readonly parking = { messages: 0, bytes: 0 }
  /** Keys of which no parked row is known any more. */
  readonly freed = new Set<string>()

  constructor(limits: ReadLimits, cursor: ReadCursor) {
    this.#limits = limits
    this.#cursor = cursor
  }

  [Symbol.iterator](): Iterator<WindowRow> {
    return this.#rows.values()
  }

  get isFull(): boolean {
    return this.held.messages >= this.#limits.messages || this.held.bytes >= this.#limits.bytes
  }

  /** @returns the known row, or a new one in the state `'gone'`. */
  of(message: LocalMessage): WindowRow {
    const id = rowId(message)
    const known = this.#rows.get(id)
    if (known !== undefined) return known
    const laneId = laneIdOf(message, id)
    let lane = this.#lanes.get(laneId)
    if (lane === undefined) {
      lane = new KeyLane(laneId, message.ordered ? message.key : undefined)
      this.#lanes.set(laneId, lane)
    }
    return { id, message, lane, state: 'gone' }
  }

  hold(row: WindowRow): void {
    row.state = 'held'
    row.lane.add(row)
    this.#rows.set(row.id, row)
    this.held.messages += 1
    this.held.bytes += row.message.payload.length
    this.changed(row.lane)
  }

  /** Hands out a row that is held no longer, or was never held. */
  handOut(row: WindowRow): void {
    if (row.state === 'held') this.#unhold(row)
    row.state = 'out'
    row.lane.out.add(row)
    this.#rows.set(row.id, row)
    this.changed(row.lane)
  }

  /** Removes rows of a lane that are held: the waiting ones, or all of them. */
  takeHeld(lane: KeyLane, which: 'waiting' | 'all' = 'all'): readonly WindowRow[] {
    const taken = lane.takeHeld(which)
    for (const row of taken) {
      this.#unhold(row)
      row.state = 'gone'
    }
    return taken
  }

  /** From now on the rows of the lane are being parked. */
  park(lane: KeyLane, rows: readonly WindowRow[]): readonly WindowRow[] {
    for (const row of rows) {
      row.state = 'parking'
      lane.out.delete(row)
      this.parking.messages += 1
      this.parking.bytes += row.message.payload.length
    }
    lane.parking += rows.length
    this.changed(lane)
    return rows
  }

  /** The row is no longer being parked. */
  unpark({ lane, message }: WindowRow): void {
    lane.parking -= 1
    this.parking.messages -= 1
    this.parking.bytes -= message.payload.length
  }

  /** The row is known no longer. */
  end(row: WindowRow): void {
    const { lane, message } = row
    row.state = 'gone'
    lane.out.delete(row)
    this.#rows.delete(row.id)
    this.#cursor.rowEnded(row.id)
    this.changed(lane)
    if (message.in === 'parked' && lane.key !== undefined && !lane.hasParked) this.freed.add(lane.key)
  }

  /** Forgets rows that still exist, with all of their lane that is held. */
  drop(lane: KeyLane, rows: readonly WindowRow[]): void {
    this.#cursor.laneDropped(lane.id)
    this.#forget([...rows, ...this.takeHeld(lane)])
  }

  /** Forgets all rows that are held: they came from another server. */
  dropAll(): void {
    for (const lane of this.#lanes.values()) {
      for (const row of this.takeHeld(lane)) this.end(row)
    }
  }

  /** Forgets the last rows of the keys with the most rows until the window is no longer too full: a later read brings them again. */
  makeRoom(): void {
    const { messages, bytes } = this.#limits
    while (this.held.messages > 1 && (this.held.messages > messages || this.held.bytes > bytes)) {
      const lanes = [...this.#lanes.values()]
      const { held } = lanes.reduce((one, other) => (other.held.length > one.held.length ? other : one))
      const most = Math.max(1, this.held.messages - messages)
      const dropped = held.splice(-Math.min(most, Math.ceil(held.length / 2)))
      for (const row of dropped) this.#unhold(row)
      this.#forget(dropped)
    }
  }

  /** The number of rows that cannot begin because their keys are busy, and all busy keys. */
  stuck(): { readonly rows: number; readonly keys: readonly string[] } {
    const busy = [...this.#lanes.values()].filter(({ isBusy }) => isBusy)
    return {
      rows: busy.reduce((rows, { held }) => rows + held.length, this.parking.messages),
      keys: busy.flatMap(({ key }) => (key === undefined ? [] : [key])),
    }
  }

  /** The known rows that a read from the cursor returns again. */
  readAgain(table: LocalMessage['in'], without: readonly string[] = []): ReadLimits {
    const { after } = this.#cursor
    const leftOut = new Set(without)
    const known = { messages: 0, bytes: 0 }
    for (const { message, lane } of this.#rows.values()) {
      const isPassed = table === 'waiting' && after !== undefined && message.seq <= after
      if (message.in !== table || isPassed || leftOut.has(lane.key ?? '')) continue
      known.messages += 1
      known.bytes += message.payload.length
    }
    return known
  }

  /** Must be called when it has changed whether the lane may begin. */
  changed(lane: KeyLane): void {
    if (lane.isReady) this.ready.add(lane)
    else this.ready.delete(lane)
    if (lane.isEmpty && this.#lanes.get(lane.id) === lane) this.#lanes.delete(lane.id)
  }

  #forget(rows: readonly WindowRow[]): void {
    for (const row of rows) {
      this.end(row)
      if (row.message.in === 'waiting') this.#cursor.lower(row.message.seq)
    }
  }

  #unhold({ message }: WindowRow): void {
    this.held.messages -= 1
    this.held.bytes -= message.payload.length
  }
}
