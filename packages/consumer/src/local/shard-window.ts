import type { LocalMessage, LocalRead, ReadLimits } from '@txbox/core/ports'
import { KeyLane, comesBefore, laneIdOf, rowId, type WindowRow } from './key-lane.ts'
import { ReadCursor, isFull, type ReadInFlight } from './read-cursor.ts'

/** While fewer keys than this may begin, the window looks behind the keys that fill it. */
const LEAST_READY = 16
/** The pauses before a row that could not be locked is looked at again. */
const SKIP_PAUSES_MS = { shortest: 200, longest: 1000 } as const

export interface Gate {
  /** Whether the key may begin now. Otherwise it waits until `resume`. */
  mayBegin(lane: KeyLane): boolean
  /** Whether the message may be part of a run. Otherwise it is taken alone. */
  mayFollow(message: LocalMessage): boolean
}

/**
 * The rows of one shard that this process has read under one lease. Hands out one row of each key at a time, or a run of rows of a
 * key; when a row has ended, the next one of its key is at hand without a read.
 *
 * A read begins behind the cursor. If few keys may begin, because the window is full of rows of keys that are busy, a read leaves
 * those keys out. Rows that must be forgotten, for example for want of room, lower the cursor. At most one read may be in flight.
 */
export class ShardWindow {
  readonly #limits: ReadLimits
  readonly #runLength: number
  readonly #cursor = new ReadCursor()
  readonly #rows = new Map<string, WindowRow>()
  readonly #lanes = new Map<string, KeyLane>()
  /** The lanes whose first row may begin, those that have been ready the longest first. */
  readonly #ready = new Set<KeyLane>()
  readonly #held = { rows: 0, bytes: 0 }
  /** Keys of which no parked row is known any more. */
  readonly #freed = new Set<string>()

  /** @param runLength the maximum number of rows of one key that are out at the same time. */
  constructor(limits: ReadLimits, runLength = 1) {
    this.#limits = limits
    this.#runLength = runLength
  }

  get isReady(): boolean {
    return this.#ready.size > 0
  }

  /** The rows that are out. */
  get out(): readonly WindowRow[] {
    return [...this.#rows.values()].filter(({ state }) => state === 'out')
  }

  /** When the next read that leaves out busy keys may begin, if one is wanted. */
  get aroundAt(): number | undefined {
    return this.#wantsAround ? this.#cursor.aroundAt : undefined
  }

  /** Whether every row that was there with a number up to this has ended. */
  isPast(seq: bigint): boolean {
    for (const { message } of this.#rows.values()) {
      if (message.in === 'waiting' && message.seq <= seq) return false
    }
    const { after, mayBringOnward } = this.#cursor
    return !mayBringOnward || (after !== undefined && after >= seq)
  }

  /** Whether the window holds as many rows as it may. */
  get isFull(): boolean {
    return this.#held.rows >= this.#limits.messages || this.#held.bytes >= this.#limits.bytes
  }

  /** Must be called when rows were found by a poll. */
  mayHaveMore(): void {
    this.#cursor.mayBring()
  }

  /** Takes rows of the keys that are ready, in the order in which they became ready. The rows of a run are in their order. */
  take(limit: number, gate: Gate): readonly WindowRow[] {
    const taken: WindowRow[] = []
    for (const lane of this.#ready) {
      if (taken.length >= limit) break
      this.#ready.delete(lane)
      if (!gate.mayBegin(lane)) {
        lane.isHeldBack = true
        continue
      }
      const length = lane.runLength(Math.min(this.#runLength, limit - taken.length), gate.mayFollow)
      for (const row of lane.held.splice(0, length)) {
        this.#unhold(row)
        row.state = 'out'
        lane.out.add(row)
        taken.push(row)
      }
    }
    return taken
  }

  /** Takes a suspect, which no other read returns. @returns `undefined` if the row is known already. */
  takeSuspect(message: LocalMessage): WindowRow | undefined {
    const row = this.#rowOf(message)
    if (row.state !== 'gone') return undefined
    row.state = 'out'
    row.lane.out.add(row)
    this.#rows.set(row.id, row)
    this.#changed(row.lane)
    return row
  }

  /** Ends the wait of a lane that the gate, a skip or a pause holds back. */
  resume(lane: KeyLane): void {
    lane.isHeldBack = false
    this.#cursor.mayBring()
    this.#changed(lane)
  }

  /** Returns once the keys whose next parked row must be made due, if there is one and it waits: no read returns it otherwise. */
  takeFreed(): readonly string[] {
    const freed = [...this.#freed]
    this.#freed.clear()
    return freed
  }

  /** The row is settled, so that the next one of its key may begin. */
  done(row: WindowRow): void {
    row.lane.skips = 0
    this.#end(row)
    this.#free(row)
    this.#changed(row.lane)
  }

  /** The row comes back unchanged, as the first one of its key. */
  back(row: WindowRow): void {
    if (row.state !== 'out') return
    row.lane.out.delete(row)
    this.#hold(row)
    this.#changed(row.lane)
  }

  /** Like {@link back}, but the lane waits until it is resumed. */
  backLater(row: WindowRow): void {
    row.lane.isHeldBack = true
    this.back(row)
  }

  /**
   * The row could not be locked, or nobody knows whether it still exists: forgets it with the rest of its lane.
   *
   * @returns the pause after which the lane must be resumed.
   */
  skip(row: WindowRow): number {
    const { lane } = row
    lane.isHeldBack = true
    const { shortest, longest } = SKIP_PAUSES_MS
    const pauseMs = Math.min(longest, shortest * 2 ** Math.min(lane.skips, 10))
    lane.skips += 1
    if (row.state === 'out') this.#forget(lane, [row])
    return pauseMs
  }

  /** The row is about to be refused, and stays in the shard: from now on, no other row of its key begins. {@link refused} must follow. */
  refusing(row: WindowRow): void {
    row.lane.refused.add(row)
    this.#changed(row.lane)
  }

  /**
   * The row was refused. @returns the waiting rows of its key, in their order, which must be parked behind it: those of its run that
   * are out, and those that are held. {@link parked} must be called for the row and for them.
   */
  refused(row: WindowRow): readonly WindowRow[] {
    const { lane } = row
    const run = [...lane.out].filter((other) => comesBefore(row.message, other.message))
    const held = lane.takeHeld()
    for (const other of held) this.#unhold(other)
    const all = [...run, ...held]
    for (const other of [row, ...all]) lane.refused.delete(other)
    // Those that are parked already wait behind this row.
    for (const other of all.filter(({ message }) => message.in === 'parked')) this.#end(other)
    this.#park(lane, [row])
    return this.#park(lane, all.filter(({ message }) => message.in === 'waiting'))
  }

  /** The rows are parked, apart from those that another transaction has locked. @returns lanes that must be resumed after a pause. */
  parked(rows: readonly WindowRow[], locked: ReadonlySet<string> = new Set()): ReadonlySet<KeyLane> {
    const again = new Set<KeyLane>()
    for (const row of rows) {
      const { lane } = row
      lane.parking -= 1
      if (locked.has(row.id)) {
        lane.isHeldBack = true
        again.add(lane)
        this.#forget(lane, [row])
      } else this.#end(row)
      this.#cursor.laneParked(lane.id)
      this.#changed(lane)
    }
    return again
  }

  /** @returns what to read next, if anything. {@link add} or {@link failed} must follow. */
  nextRead(now: number): ReadInFlight | undefined {
    const { messages, bytes } = this.#limits
    const isRoomy = this.#held.rows * 2 <= messages && this.#held.bytes * 2 <= bytes
    const mayAround = this.#wantsAround && now >= this.#cursor.aroundAt
    const mayOnward = isRoomy && this.#cursor.mayBringOnward
    if (!mayAround && !mayOnward) return undefined
    const stuck = this.#stuck()
    if (mayOnward && !(mayAround && stuck.rows * 8 >= messages)) {
      const known = this.#known('waiting', new Set())
      const room = { messages: messages - this.#held.rows, bytes: bytes - this.#held.bytes }
      return this.#cursor.begin(sum(room, known))
    }
    const room = { messages: Math.ceil(messages / 2), bytes: Math.ceil(bytes / 2) }
    return this.#cursor.begin(sum(room, this.#known('waiting', new Set(stuck.keys))), stuck.keys)
  }

  /** Adds what a read has brought. @returns rows that must be parked behind others of their keys. See {@link parked}. */
  add(read: ReadInFlight, result: LocalRead, now: number): readonly WindowRow[] {
    this.#cursor.end(read)
    if (read.isVoid) return []
    const blocked = new Set<KeyLane>()
    let added = 0
    for (const message of result.messages) {
      const row = this.#rowOf(message)
      const { lane } = row
      if (row.state === 'gone' && !read.ended.has(row.id) && !read.dropped.has(lane.id)) {
        this.#hold(row)
        added += 1
      }
      const isBlocked = message.blocked || read.parked.has(lane.id) || lane.parking > 0
      if (isBlocked && lane.refused.size === 0) blocked.add(lane)
      this.#changed(lane)
    }
    if (read.without === undefined) this.#cursor.brought(read, result)
    else this.#cursor.broughtAround(read, result, added, now)
    const behind = [...blocked].flatMap((lane) => {
      if (lane.key === undefined) return []
      const rows = lane.takeHeld('waiting')
      for (const row of rows) this.#unhold(row)
      return this.#park(lane, rows)
    })
    if (read.without !== undefined) this.#makeRoom()
    return behind
  }

  /** @returns a read of parked rows. {@link addDue} or {@link failed} must follow. */
  nextDueRead(): ReadInFlight {
    const { messages, bytes } = this.#limits
    const room = { messages: Math.ceil(messages / 4), bytes: Math.ceil(bytes / 4) }
    return this.#cursor.begin(sum(room, this.#known('parked', new Set())))
  }

  /** Adds parked rows that are due. @returns whether more of them may be due. */
  addDue(read: ReadInFlight, messages: readonly LocalMessage[]): boolean {
    this.#cursor.end(read)
    if (read.isVoid) return true
    for (const message of messages) {
      const row = this.#rowOf(message)
      const { id, lane, state } = row
      const isStale = read.ended.has(id) || read.parked.has(lane.id) || read.dropped.has(lane.id)
      const isParking = lane.parking > 0 || lane.refused.size > 0
      if (state === 'gone' && !isStale && !isParking) this.#hold(row)
      this.#changed(lane)
    }
    this.#makeRoom()
    return isFull(read, messages)
  }

  failed(read: ReadInFlight): void {
    this.#cursor.end(read)
  }

  /** Forgets what was read: it came from another server. Rows that are out end as they would have. */
  forget(): void {
    this.#cursor.forget()
    for (const lane of this.#lanes.values()) {
      for (const row of lane.takeHeld()) {
        this.#unhold(row)
        this.#end(row)
        this.#free(row)
      }
      this.#changed(lane)
    }
  }

  get #wantsAround(): boolean {
    return this.#ready.size < LEAST_READY && this.#cursor.mayBringAround && this.#held.rows > 0
  }

  /** The number of rows that cannot begin because their keys are busy, and all busy keys. */
  #stuck(): { readonly rows: number; readonly keys: readonly string[] } {
    const busy = [...this.#lanes.values()].filter(({ isBusy }) => isBusy)
    return {
      rows: busy.reduce((rows, { held }) => rows + held.length, 0),
      keys: busy.flatMap(({ key }) => (key === undefined ? [] : [key])),
    }
  }

  /** The known rows that the next read returns again. */
  #known(table: LocalMessage['in'], without: ReadonlySet<string>): ReadLimits {
    const { after } = this.#cursor
    const known = { messages: 0, bytes: 0 }
    for (const { message, lane } of this.#rows.values()) {
      const isPassed = table === 'waiting' && after !== undefined && message.seq <= after
      if (message.in !== table || isPassed || without.has(lane.key ?? '')) continue
      known.messages += 1
      known.bytes += message.payload.length
    }
    return known
  }

  /** Forgets the last rows of the keys with the most rows until the window is no longer too full: a later read brings them again. */
  #makeRoom(): void {
    const { messages, bytes } = this.#limits
    while (this.#held.rows > 1 && (this.#held.rows > messages || this.#held.bytes > bytes)) {
      const lanes = [...this.#lanes.values()]
      const longest = lanes.reduce((one, other) => (other.held.length > one.held.length ? other : one))
      const most = Math.max(1, this.#held.rows - messages)
      this.#drop(longest.held.splice(-Math.min(most, Math.ceil(longest.held.length / 2))))
    }
  }

  /** Forgets rows that are out or being parked, and the rest of their lane. */
  #forget(lane: KeyLane, rows: readonly WindowRow[]): void {
    this.#cursor.laneDropped(lane.id)
    this.#drop([...rows, ...lane.takeHeld()])
  }

  /** Forgets rows that still exist. No later row of their lanes must be held. */
  #drop(rows: readonly WindowRow[]): void {
    for (const row of rows) {
      if (row.state === 'held') this.#unhold(row)
      this.#end(row)
      this.#free(row)
      if (row.message.in === 'waiting') this.#cursor.lower(row.message.seq)
      this.#changed(row.lane)
    }
  }

  /** @returns the known row, or a new one that is not held yet. */
  #rowOf(message: LocalMessage): WindowRow {
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

  #hold(row: WindowRow): void {
    row.state = 'held'
    row.lane.add(row)
    this.#rows.set(row.id, row)
    this.#held.rows += 1
    this.#held.bytes += row.message.payload.length
  }

  #unhold({ message }: WindowRow): void {
    this.#held.rows -= 1
    this.#held.bytes -= message.payload.length
  }

  #park(lane: KeyLane, rows: readonly WindowRow[]): readonly WindowRow[] {
    for (const row of rows) {
      row.state = 'parking'
      lane.out.delete(row)
    }
    lane.parking += rows.length
    if (rows.length > 0) this.#cursor.laneParked(lane.id)
    this.#changed(lane)
    return rows
  }

  #end(row: WindowRow): void {
    row.state = 'gone'
    row.lane.out.delete(row)
    this.#rows.delete(row.id)
    this.#cursor.rowEnded(row.id)
  }

  #free({ message, lane }: WindowRow): void {
    if (message.in === 'parked' && lane.key !== undefined && !lane.hasParked) this.#freed.add(lane.key)
  }

  #changed(lane: KeyLane): void {
    if (lane.isReady) this.#ready.add(lane)
    else this.#ready.delete(lane)
    if (lane.isEmpty && this.#lanes.get(lane.id) === lane) this.#lanes.delete(lane.id)
  }
}

function sum(one: ReadLimits, other: ReadLimits): ReadLimits {
  return { messages: one.messages + other.messages, bytes: one.bytes + other.bytes }
}
