import type { LocalMessage, LocalRead, ReadLimits } from '@txbox/core/ports'
import { comesBefore, type Gate, type KeyLane, type WindowRow } from './key-lane.ts'
import { ReadCursor, isFull, sum, type ReadInFlight } from './read-cursor.ts'
import { WindowRows } from './window-rows.ts'

/** While fewer keys than this may begin, the window looks behind the keys that fill it. */
const LEAST_READY = 16
/** The pauses before a row that could not be locked is looked at again. */
const SKIP_PAUSES_MS = { shortest: 200, longest: 1000 } as const

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
  readonly #rows: WindowRows

  /** @param runLength the maximum number of rows of one key that are out at the same time. */
  constructor(limits: ReadLimits, runLength = 1) {
    this.#limits = limits
    this.#runLength = runLength
    this.#rows = new WindowRows(limits, this.#cursor)
  }

  get isReady(): boolean {
    return this.#rows.ready.size > 0
  }

  /** Whether the window holds as many rows as it may. */
  get isFull(): boolean {
    return this.#rows.isFull
  }

  /** The number of rows that are held. */
  get size(): number {
    return this.#rows.held.messages
  }

  /** The rows that are out. */
  get out(): readonly WindowRow[] {
    return [...this.#rows].filter(({ state }) => state === 'out')
  }

  /** When the next read that leaves out busy keys may begin, if one is wanted. */
  get aroundAt(): number | undefined {
    return this.#wantsAround ? this.#cursor.aroundAt : undefined
  }

  /** Whether every row that was there with a number up to this has ended. */
  isPast(seq: bigint): boolean {
    for (const { message } of this.#rows) {
      if (message.in === 'waiting' && message.seq <= seq) return false
    }
    const { after, mayBringOnward } = this.#cursor
    return !mayBringOnward || (after !== undefined && after >= seq)
  }

  /** Must be called when rows were found by a poll. */
  mayHaveMore(): void {
    this.#cursor.mayBring()
  }

  /** Takes rows of the keys that are ready, in the order in which they became ready. The rows of a run are in their order. */
  take(limit: number, gate: Gate): readonly WindowRow[] {
    const taken: WindowRow[] = []
    for (const lane of this.#rows.ready) {
      if (taken.length >= limit) break
      if (!gate.mayBegin(lane)) {
        lane.isHeldBack = true
        this.#rows.changed(lane)
        continue
      }
      const length = lane.runLength(Math.min(this.#runLength, limit - taken.length), (message) =>
        gate.mayFollow(message),
      )
      const run = lane.held.splice(0, length)
      for (const row of run) this.#rows.handOut(row)
      taken.push(...run)
    }
    return taken
  }

  /** Takes a suspect, which no other read returns. @returns `undefined` if the row is known already. */
  takeSuspect(message: LocalMessage): WindowRow | undefined {
    const row = this.#rows.of(message)
    if (row.state !== 'gone') return undefined
    this.#rows.handOut(row)
    return row
  }

  /**
   * Ends the wait of a lane that the gate, a skip, a pause or a lock holds back.
   *
   * @returns rows that must be parked behind others of their key. See {@link parked}.
   */
  resume(lane: KeyLane): readonly WindowRow[] {
    lane.isHeldBack = false
    this.#cursor.mayBring()
    // Rows that are being parked come first: the lane is resumed again when that has ended.
    const mayPark = lane.mustPark && lane.parking === 0
    const rows = mayPark ? this.#rows.takeHeld(lane, 'waiting') : []
    if (mayPark) lane.mustPark = false
    return this.#rows.park(lane, rows)
  }

  /** Whether keys are free whose next parked row must be made due. */
  get hasFreed(): boolean {
    return this.#rows.freed.size > 0
  }

  /** Returns once the keys whose next parked row must be made due, if there is one and it waits: no read returns it otherwise. */
  takeFreed(): readonly string[] {
    const freed = [...this.#rows.freed]
    this.#rows.freed.clear()
    return freed
  }

  /** The row is settled, so that the next one of its key may begin. */
  done(row: WindowRow): void {
    row.lane.skips = 0
    this.#rows.end(row)
  }

  /** The row comes back unchanged, as the first one of its key. */
  back(row: WindowRow): void {
    if (row.state !== 'out') return
    if (row.isVoid === true) return this.#rows.drop(row.lane, [row])
    row.lane.out.delete(row)
    this.#rows.hold(row)
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
    if (row.state === 'out') this.#rows.drop(lane, [row])
    return pauseMs
  }

  /** The row is about to be refused, and stays in the shard: from now on, no other row of its key begins. {@link refused} must follow. */
  refusing(row: WindowRow): void {
    row.lane.refused.add(row)
    this.#rows.changed(row.lane)
  }

  /**
   * The row was refused. @returns the waiting rows of its key, in their order, which must be parked behind it: those of its run that
   * are out, and those that are held. {@link parked} must be called for the row and for them.
   */
  refused(row: WindowRow): readonly WindowRow[] {
    const { lane } = row
    const run = [...lane.out].filter((other) => comesBefore(row.message, other.message))
    const all = [...run, ...this.#rows.takeHeld(lane)]
    for (const other of [row, ...all]) lane.refused.delete(other)
    this.#rows.park(lane, [row])
    const waiting = this.#rows.park(
      lane,
      all.filter(({ message }) => message.in === 'waiting'),
    )
    // Those that are parked already wait behind the row, and are released with it.
    for (const other of all) if (other.message.in === 'parked') this.#rows.end(other)
    return waiting
  }

  /**
   * The rows are parked, apart from those that another transaction has locked.
   *
   * @returns lanes that must be resumed after a pause, because some of their rows are locked, or were read meanwhile.
   */
  parked(rows: readonly WindowRow[], locked: ReadonlySet<string> = new Set()): ReadonlySet<KeyLane> {
    const again = new Set<KeyLane>()
    for (const row of rows) {
      const { lane } = row
      this.#rows.unpark(row)
      this.#cursor.laneParked(lane.id)
      if (locked.has(row.id)) {
        lane.mustPark = true
        again.add(lane)
        this.#rows.hold(row)
      } else this.#rows.end(row)
      // Waiting rows are locked, or were read meanwhile, or the lane was resumed too early.
      if (lane.parking === 0 && (lane.mustPark || lane.hasHeld('waiting'))) {
        lane.mustPark = true
        again.add(lane)
        this.#rows.changed(lane)
      }
    }
    return again
  }

  /** @returns what to read next, if anything. {@link add} or {@link failed} must follow. */
  nextRead(now: number): ReadInFlight | undefined {
    const { messages, bytes } = this.#limits
    const used = sum(this.#rows.held, this.#rows.parking)
    const isRoomy = used.messages * 2 <= messages && used.bytes * 2 <= bytes
    const mayAround = this.#wantsAround && now >= this.#cursor.aroundAt
    // Each poll finds the rows that are known already: what has come since the last read can wait while enough keys may begin.
    const isWanted = this.#rows.ready.size < LEAST_READY || this.#cursor.surelyBringsOnward
    const mayOnward = isRoomy && isWanted && this.#cursor.mayBringOnward
    if (!mayAround && !mayOnward) return undefined
    const stuck = this.#rows.stuck()
    if (mayOnward && !(mayAround && stuck.rows * 8 >= messages)) {
      const room = { messages: messages - used.messages, bytes: bytes - used.bytes }
      return this.#cursor.begin(sum(room, this.#rows.readAgain('waiting')))
    }
    const room = { messages: Math.ceil(messages / 2), bytes: Math.ceil(bytes / 2) }
    return this.#cursor.begin(sum(room, this.#rows.readAgain('waiting', stuck.keys)), stuck.keys)
  }

  /** Adds what a read has brought. @returns rows that must be parked behind others of their keys. See {@link parked}. */
  add(read: ReadInFlight, result: LocalRead, now: number): readonly WindowRow[] {
    this.#cursor.end(read)
    if (read.isVoid) return []
    const blocked = new Set<KeyLane>()
    let added = 0
    for (const message of result.messages) {
      const row = this.#rows.of(message)
      const { lane } = row
      if (row.state === 'gone' && !read.ended.has(row.id)) {
        if (read.dropped.has(lane.id)) this.#cursor.notKept(read, message.seq)
        else {
          this.#rows.hold(row)
          added += 1
        }
      }
      const isBlocked = message.blocked || read.parked.has(lane.id) || lane.parking > 0
      // They are parked behind a row that is being refused, together with a row that is locked now, or after the rows that are
      // being parked, which another transaction may have locked: they must not overtake those.
      const isLater = lane.refused.size > 0 || lane.mustPark || lane.parking > 0
      if (isBlocked && lane.key !== undefined && !isLater) blocked.add(lane)
      this.#rows.changed(lane)
    }
    if (read.without === undefined) this.#cursor.brought(read, result)
    else this.#cursor.broughtAround(read, result, added, now)
    const behind = [...blocked].flatMap((lane) => this.#rows.park(lane, this.#rows.takeHeld(lane, 'waiting')))
    if (read.without !== undefined) this.#rows.makeRoom()
    return behind
  }

  /** @returns a read of parked rows. {@link addDue} or {@link failed} must follow. */
  nextDueRead(): ReadInFlight {
    const { messages, bytes } = this.#limits
    const room = { messages: Math.ceil(messages / 4), bytes: Math.ceil(bytes / 4) }
    return this.#cursor.begin(sum(room, this.#rows.readAgain('parked')))
  }

  /** Adds parked rows that are due. @returns whether more of them may be due. */
  addDue(read: ReadInFlight, messages: readonly LocalMessage[]): boolean {
    this.#cursor.end(read)
    if (read.isVoid) return true
    for (const message of messages) {
      const row = this.#rows.of(message)
      const { id, lane, state } = row
      const isStale = read.ended.has(id) || read.parked.has(lane.id) || read.dropped.has(lane.id)
      const isParking = lane.parking > 0 || lane.refused.size > 0
      if (state === 'gone' && !isStale && !isParking) this.#rows.hold(row)
      this.#rows.changed(lane)
    }
    this.#rows.makeRoom()
    return isFull(read, messages)
  }

  failed(read: ReadInFlight): void {
    this.#cursor.end(read)
  }

  /** Forgets what was read: it came from another server. Rows that are out end as they would have, or are read again. */
  forget(): void {
    for (const row of this.out) row.isVoid = true
    this.#cursor.forget()
    this.#rows.dropAll()
  }

  get #wantsAround(): boolean {
    const { ready, held, parking } = this.#rows
    return ready.size < LEAST_READY && this.#cursor.mayBringAround && held.messages + parking.messages > 0
  }
}
