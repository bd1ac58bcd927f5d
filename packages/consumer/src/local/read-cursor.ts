import type { LocalMessage, LocalRead, ReadLimits } from '@txbox/core/ports'

/** The pauses between two reads that leave out busy keys and find nothing new: such a read may pass over many rows. */
const AROUND_PAUSES_MS = { shortest: 200, longest: 800 } as const

/**
 * A read whose answer has not arrived. The rows of the answer may have changed meanwhile, so it is noted here what has happened
 * since the read began.
 */
export interface ReadInFlight {
  readonly limits: ReadLimits
  /** The read begins behind this number. */
  readonly after: bigint | undefined
  /** The keys that are left out, because the window is full of their rows. */
  readonly without: readonly string[] | undefined
  /** Rows that were settled or forgotten. */
  readonly ended: Set<string>
  /** Lanes that have got a parked row. */
  readonly parked: Set<string>
  /** Lanes whose rows were forgotten: a later read brings them again, beginning with their first row. */
  readonly dropped: Set<string>
  /** The next read must not begin behind a later number than this. */
  most: bigint | undefined
  /** Whether the answer is about another server. */
  isVoid: boolean
}

/**
 * Where the reads of one window begin, and what happens while they are in flight. Every row up to the cursor is known, or no longer
 * exists.
 */
export class ReadCursor {
  readonly #inFlight = new Set<ReadInFlight>()
  #cursor: bigint | undefined
  #aroundAt = -Infinity
  #aroundPauseMs: number = AROUND_PAUSES_MS.shortest
  /** Whether a read may bring rows that are not known: surely after one that was full. Before the first poll, nothing is known to be there. */
  #onward: 'no' | 'maybe' | 'surely' = 'no'
  /** The same of a read that leaves out busy keys. */
  mayBringAround = false

  /** A read begins behind this number, or at the start. */
  get after(): bigint | undefined {
    return this.#cursor
  }

  get mayBringOnward(): boolean {
    return this.#onward !== 'no'
  }

  get surelyBringsOnward(): boolean {
    return this.#onward === 'surely'
  }

  /** When the next read that leaves out busy keys may begin. */
  get aroundAt(): number {
    return this.#aroundAt
  }

  begin(limits: ReadLimits, without?: readonly string[]): ReadInFlight {
    const read: ReadInFlight = {
      limits,
      after: this.#cursor,
      without,
      ended: new Set(),
      parked: new Set(),
      dropped: new Set(),
      most: undefined,
      isVoid: false,
    }
    this.#inFlight.add(read)
    return read
  }

  end(read: ReadInFlight): void {
    this.#inFlight.delete(read)
  }

  /** Must be called when rows were found, or a key has become free. */
  mayBring(): void {
    if (this.#onward === 'no') this.#onward = 'maybe'
    this.mayBringAround = true
  }

  /** A row that the read has brought was not kept. */
  notKept(read: ReadInFlight, seq: bigint): void {
    if (read.most === undefined || seq <= read.most) read.most = seq - 1n
  }

  /** Moves the cursor behind what a read has brought. */
  brought(read: ReadInFlight, { messages, certain }: LocalRead): void {
    this.#onward = isFull(read, messages) || read.most !== undefined ? 'surely' : 'no'
    if (certain === undefined) return
    // Rows behind the last one may be missing for want of room.
    const bounds = [certain, messages.at(-1)?.seq, read.most].filter((bound) => bound !== undefined)
    const cursor = bounds.reduce((one, other) => (other < one ? other : one))
    if (this.#cursor === undefined || cursor > this.#cursor) this.#cursor = cursor
  }

  /** Must be called when a read that left out busy keys has brought this number of new rows. */
  broughtAround(read: ReadInFlight, { messages }: LocalRead, added: number, now: number): void {
    const { shortest, longest } = AROUND_PAUSES_MS
    const mayGoOn = isFull(read, messages) && added > 0
    this.mayBringAround = mayGoOn
    this.#aroundPauseMs = added > 0 ? shortest : Math.min(longest, this.#aroundPauseMs * 2)
    this.#aroundAt = mayGoOn ? now : now + this.#aroundPauseMs
  }

  /** A row that still exists was forgotten. */
  lower(seq: bigint): void {
    const most = seq - 1n
    if (this.#cursor !== undefined && most < this.#cursor) this.#cursor = most
    for (const read of this.#inFlight) this.notKept(read, seq)
    this.mayBring()
    this.#onward = 'surely'
  }

  rowEnded(id: string): void {
    for (const { ended } of this.#inFlight) ended.add(id)
  }

  laneParked(id: string): void {
    for (const { parked } of this.#inFlight) parked.add(id)
  }

  laneDropped(id: string): void {
    for (const { dropped } of this.#inFlight) dropped.add(id)
  }

  /** Forgets what is known about numbers: they came from another server. */
  forget(): void {
    for (const read of this.#inFlight) read.isVoid = true
    this.#inFlight.clear()
    this.#cursor = undefined
    this.mayBring()
  }
}

/** Whether the read may have ended for want of room. The size of the next row is not known. */
export function isFull({ limits }: ReadInFlight, messages: readonly LocalMessage[]): boolean {
  const bytes = messages.reduce((sum, { payload }) => sum + payload.length, 0)
  return messages.length >= limits.messages || bytes * 2 >= limits.bytes
}

export function sum(one: ReadLimits, other: ReadLimits): ReadLimits {
  return { messages: one.messages + other.messages, bytes: one.bytes + other.bytes }
}
