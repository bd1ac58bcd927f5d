import type { LocalMessage, LocalRow } from '@txbox/core/ports'

/** A row that a window knows, from its read until it is settled or forgotten. */
export interface WindowRow {
  readonly id: string
  readonly message: LocalMessage
  readonly lane: KeyLane
  /** `'held'`: read. `'out'`: handed to the consumer. `'parking'`: being parked. */
  state: 'held' | 'out' | 'parking' | 'gone'
  /** Whether the row was out when the server turned out to be another one, on which earlier rows of its key may be there again. */
  isVoid?: boolean
}

/** Decides which keys may begin when rows are handed out. */
export interface Gate {
  /** Whether the key may begin now. Otherwise it waits until `resume`. */
  mayBegin(lane: KeyLane): boolean
  /** Whether the message may be part of a run. Otherwise it is taken alone. */
  mayFollow(message: LocalMessage): boolean
}

/** The known rows of one key, or one row without a place in the order of a key. */
export class KeyLane {
  readonly id: string
  readonly key: string | undefined
  /** The rows that wait here: those that are parked come first. */
  readonly held: WindowRow[] = []
  readonly out = new Set<WindowRow>()
  /** Whether the lane is looked at again later, for example because another transaction has locked its first row. */
  isHeldBack = false
  /** How often in a row the first row could not be locked. */
  skips = 0
  /** Rows that are being refused. Rows that are read meanwhile will be parked behind them. */
  readonly refused = new Set<WindowRow>()
  /** The number of rows that are being parked. */
  parking = 0
  /** Whether the waiting rows that are held must be parked as soon as the lane is resumed, because a parked row comes before them. */
  mustPark = false

  constructor(id: string, key: string | undefined) {
    this.id = id
    this.key = key
  }

  /** Whether waiting rows of the lane must not begin now. */
  get isBusy(): boolean {
    return this.#isHeld || this.parking > 0 || this.mustPark
  }

  /** Rows that are parked already come before those that are being parked. */
  get isReady(): boolean {
    const [first] = this.held
    return first !== undefined && (first.message.in === 'parked' ? !this.#isHeld : !this.isBusy)
  }

  get isEmpty(): boolean {
    return this.held.length === 0 && !this.isBusy
  }

  get #isHeld(): boolean {
    return this.out.size > 0 || this.isHeldBack || this.refused.size > 0
  }

  add(row: WindowRow): void {
    let place = this.held.length
    while (place > 0 && comesBefore(row.message, this.held[place - 1]!.message)) place -= 1
    this.held.splice(place, 0, row)
  }

  /** Removes the waiting rows that are held, or all that are held. */
  takeHeld(which: 'waiting' | 'all' = 'all'): readonly WindowRow[] {
    const isTaken = ({ message }: WindowRow): boolean => which === 'all' || message.in === 'waiting'
    const taken = this.held.filter(isTaken)
    const left = this.held.filter((row) => !isTaken(row))
    this.held.splice(0, this.held.length, ...left)
    return taken
  }

  /** The number of rows that may begin together: several of a key, if none of them was refused before or must be taken alone. */
  runLength(most: number, mayFollow: (message: LocalMessage) => boolean): number {
    const [first] = this.held
    if (first === undefined || this.key === undefined || !mayFollow(first.message)) return 1
    let length = 1
    for (const { message } of this.held.slice(1, most)) {
      // Waiting rows may have to be parked first.
      if (message.in !== first.message.in || message.attempts > 0 || !mayFollow(message)) break
      length += 1
    }
    return length
  }

  /** Whether a row of this table is held. */
  hasHeld(table: LocalMessage['in']): boolean {
    return this.held.some(({ message }) => message.in === table)
  }

  /** Whether a parked row of the key is known. */
  get hasParked(): boolean {
    const isParked = ({ message }: WindowRow): boolean => message.in === 'parked'
    return this.held.some(isParked) || [...this.out].some(isParked)
  }
}

/** Parked rows come before waiting ones, and each kind in the order of its numbers. */
export function comesBefore(one: LocalRow, other: LocalRow): boolean {
  if (one.in !== other.in) return one.in === 'parked'
  return one.seq < other.seq
}

/** The name of a row in this process. A number may be given twice by a server, but never with the same stamp. */
export function rowId({ in: table, seq, stamp }: LocalRow): string {
  return `${table === 'waiting' ? 'w' : 'p'}${seq}/${stamp}`
}

/** The name of the lane of a message: its key, or the row itself if the message has no place in the order of a key. */
export function laneIdOf(message: LocalMessage, id: string): string {
  return message.ordered && message.key !== undefined ? `k${message.key}` : id
}
