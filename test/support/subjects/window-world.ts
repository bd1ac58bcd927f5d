import { expect } from 'vitest'
import type { LocalMessage, LocalRead } from '@txbox/core/ports'
import {
  rowId,
  type KeyLane,
  type WindowRow,
  type Gate,
} from '../../../packages/consumer/src/local/key-lane.ts'
import type { ReadInFlight } from '../../../packages/consumer/src/local/read-cursor.ts'
import { ShardWindow } from '../../../packages/consumer/src/local/shard-window.ts'
import { LocalShardModel } from './local-shard-model.ts'

const LIMITS = { messages: 8, bytes: 40 }

/** What happens to a window and its shard. */
export type WindowCommand =
  | {
      readonly kind: 'publish'
      readonly key: number
      readonly count: number
      readonly bytes: number
      readonly isOpen: boolean
    }
  | {
      readonly kind: 'commit' | 'done' | 'fail' | 'skip' | 'vanish' | 'back' | 'backLater' | 'work'
      readonly which: number
    }
  | { readonly kind: 'take'; readonly count: number; readonly isHeldBack: boolean }
  | { readonly kind: 'advance'; readonly ms: number }
  | { readonly kind: 'read' | 'answer' | 'forget' }
  | { readonly kind: 'during'; readonly events: readonly WindowCommand[] }

/** One window on one shard, and everything that is in flight between them. */
export class WindowWorld {
  readonly table = new LocalShardModel()
  readonly window: ShardWindow
  /** Rows that handlers have now. */
  out: WindowRow[] = []
  /** What happens later, in this order or another: keys that are released, and lanes that are resumed. */
  readonly #work: (() => void)[] = []
  /** Settlements do not overtake each other. */
  readonly #settlements: (() => void)[] = []
  readonly #runLength: number
  readonly #ended = new Set<string>()
  #answer: (() => void) | undefined
  #isDue = true
  #parkings = 0

  constructor(runLength: number) {
    this.#runLength = runLength
    this.window = new ShardWindow(LIMITS, runLength)
    this.window.mayHaveMore()
  }

  run(command: WindowCommand): void {
    const { table } = this
    switch (command.kind) {
      case 'publish': {
        const key = command.key > 1 ? undefined : `key ${command.key}`
        const count = command.isOpen ? 1 : command.count
        for (let n = 0; n < count; n++) table.publish(key, command.bytes, command.isOpen)
        return this.found()
      }
      case 'commit': {
        const open = table.openNumbers
        if (open.length > 0) table.commit(open[command.which % open.length]!)
        return this.found()
      }
      case 'take':
        return void this.take(command.count, command.isHeldBack)
      case 'advance':
        return void (table.now += command.ms)
      case 'read':
        return this.read()
      case 'answer':
        return this.answer()
      case 'during':
        this.answer()
        this.read()
        for (const event of command.events) this.run(event)
        return this.answer()
      case 'forget':
        this.window.forget()
        return void (this.#isDue = true)
      case 'work':
        return this.work(command.which)
      case 'done':
      case 'fail':
      case 'skip':
      case 'vanish':
      case 'back':
      case 'backLater':
        return this.#end(command.kind, command.which)
    }
  }

  found(): void {
    this.window.mayHaveMore()
    this.#isDue = true
  }

  get isWorking(): boolean {
    return this.#work.length + this.#settlements.length > 0
  }

  work(which: number): void {
    const place = which % (this.#work.length + 1)
    const [work] = place === this.#work.length ? this.#settlements.splice(0, 1) : this.#work.splice(place, 1)
    work?.()
  }

  /** Hands out rows, and checks that each may begin. */
  take(count: number, isHeldBack = false): readonly WindowRow[] {
    const heldBack: KeyLane[] = []
    const gate: Gate = {
      mayBegin: (lane) => !isHeldBack || (heldBack.push(lane), false),
      mayFollow: () => true,
    }
    const rows = this.window.take(count, gate)
    this.#work.push(...heldBack.map((lane) => () => this.resume(lane)))
    expect(rows.length).toBeLessThanOrEqual(count)
    const before = this.out.map(({ message }) => message)
    for (const [n, row] of rows.entries()) {
      const { message } = row
      const run = rows.slice(0, n).filter((other) => other.lane === row.lane)
      expect(this.#ended.has(row.id), `${row.id} has ended`).toBe(false)
      expect(
        before.some((other) => rowId(other) === row.id),
        `${row.id} is out`,
      ).toBe(false)
      expect(
        before.some((other) => other.key !== undefined && other.key === message.key),
        `two of ${message.key}`,
      ).toBe(false)
      expect(run.length).toBeLessThan(this.#runLength)
      // A row that was removed by another process can no longer be locked.
      if (!this.table.has(message)) continue
      const isFirst = this.table.isFirst(
        message,
        run.map((other) => other.message),
      )
      expect(isFirst, `${row.id} is first of ${message.key}`).toBe(true)
      expect(this.table.mayBegin(message), `${row.id} is due`).toBe(true)
    }
    this.out.push(...rows)
    return rows
  }

  resume(lane: KeyLane): void {
    this.#willPark(this.window.resume(lane))
  }

  read(): void {
    if (this.#answer !== undefined) return
    const { window, table } = this
    if (this.#isDue) {
      this.#isDue = false
      const read = window.nextDueRead()
      const messages = table.readDue(read.limits)
      this.#answer = () => {
        if (window.addDue(read, messages)) this.#isDue = true
      }
      return
    }
    const read = window.nextRead(table.now)
    if (read === undefined) return
    const result = table.read(read.limits, read.after, read.without)
    this.#answer = () => this.#brought(read, result)
  }

  answer(): void {
    const answer = this.#answer
    this.#answer = undefined
    answer?.()
  }

  #brought(read: ReadInFlight, result: LocalRead): void {
    this.#willPark(this.window.add(read, result, this.table.now))
  }

  #willPark(rows: readonly WindowRow[]): void {
    if (rows.length > 0) this.#settlements.push(() => this.#parkBehind(rows))
  }

  /** Now and then a row is locked by another transaction. No row behind it in its key is parked. */
  #parkBehind(rows: readonly WindowRow[]): void {
    const left = new Set<string>()
    const keys = new Set<string | undefined>()
    const lockedAt = ++this.#parkings % 3 === 0 ? this.#parkings % rows.length : -1
    for (const [n, { id, message }] of rows.entries()) {
      if (n === lockedAt || keys.has(message.key)) {
        left.add(id)
        keys.add(message.key)
      } else this.table.behind(message)
    }
    this.#answered(() => {
      for (const lane of this.window.parked(rows, left)) this.#work.push(() => this.resume(lane))
      for (const { message } of rows) if (message.key !== undefined) this.table.release(message.key)
      this.found()
    })
  }

  /** The answer to a settlement arrives later than its commit, and before the next settlement begins. */
  #answered(then: () => void): void {
    this.#settlements.unshift(then)
  }

  #end(kind: 'done' | 'fail' | 'skip' | 'vanish' | 'back' | 'backLater', which: number): void {
    const row = this.out[which % Math.max(1, this.out.length)]
    if (row === undefined) return
    // The rows of a run end in their order, and nothing behind a failed one has begun.
    const run = this.out.filter(({ lane, state }) => lane === row.lane && state === 'out')
    const [first] = run
    if (first === undefined) return
    const isLeft = (one: WindowRow): boolean => one !== first
    if (kind === 'done') {
      this.out = this.out.filter(isLeft)
      this.done(first)
    } else if (kind === 'fail') this.#fail(first, which)
    else {
      this.out = this.out.filter((one) => !run.includes(one))
      if (kind === 'vanish') this.#remove(first.message)
      for (const one of run.toReversed()) {
        if (kind === 'back') this.window.back(one)
        else if (kind === 'backLater') this.window.backLater(one)
        else this.window.skip(one)
      }
      if (kind !== 'back') this.#work.push(() => this.resume(first.lane))
    }
  }

  done(row: WindowRow): void {
    this.#remove(row.message)
    this.window.done(row)
    // The keys are released later than the commit, and later than what else happens until then.
    this.#work.push(() => this.#release())
  }

  #release(): void {
    for (const key of this.window.takeFreed()) this.table.release(key)
    this.found()
  }

  #remove(message: LocalMessage): void {
    this.table.remove(message)
    this.#ended.add(rowId(message))
  }

  #fail(row: WindowRow, which: number): void {
    this.out = this.out.filter((one) => one !== row)
    this.window.refusing(row)
    this.#settlements.push(() => {
      this.table.refuse(row.message, which * 50)
      this.#answered(() => {
        const behind = this.window.refused(row)
        const parked = [...behind, row]
        this.out = this.out.filter((one) => one.lane !== row.lane)
        this.#settlements.push(() => {
          for (const { message } of behind) this.table.behind(message)
          this.#answered(() => {
            for (const lane of this.window.parked(parked)) this.#work.push(() => this.resume(lane))
            this.found()
          })
        })
      })
    })
  }

  /** Handles everything that is left, except rows that are never finished. */
  drain(isStuck: (row: WindowRow) => boolean = () => false): void {
    for (const seq of this.table.openNumbers) this.table.commit(seq)
    this.answer()
    for (let n = 0; n < 2000; n++) {
      this.found()
      for (let reads = 0; reads < 3; reads++) {
        this.read()
        this.answer()
      }
      for (let which = 0; this.isWorking; which++) this.work(which)
      this.#release()
      this.take(4)
      const left = this.out.filter(isStuck)
      for (const row of this.out.filter((one) => !isStuck(one))) this.done(row)
      this.out = left
      this.table.now += 50
      if (this.table.size === 0) return
    }
  }
}
