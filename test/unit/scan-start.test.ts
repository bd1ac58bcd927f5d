import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { ScanStart, type OpenWriter, type Scan } from '../../packages/postgres/src/scan-start.ts'

/** What a read takes at most. */
const BATCH = 3
/** Enough of them that it is worth a look at the writers each time. */
const DELETED = 1000

interface Transaction {
  name: string
  prepared: boolean
  readonly drawn: bigint[]
}

/** A table of one shard: numbers are drawn in order, and become visible when their transaction commits. */
class Table {
  #last = 0n
  #names = 0
  readonly open: Transaction[] = []
  readonly visible = new Set<bigint>()

  begin(): void {
    this.open.push({ name: `1/${this.#names++}`, prepared: false, drawn: [] })
  }

  draw(at: number): void {
    const transaction = this.#at(at)
    if (transaction?.prepared === false) transaction.drawn.push(++this.#last)
  }

  prepare(at: number): void {
    const transaction = this.#at(at)
    if (transaction === undefined) return
    transaction.prepared = true
    transaction.name = `-1/${this.#names++}`
  }

  end(at: number, commit: boolean): void {
    const transaction = this.#at(at)
    if (transaction === undefined) return
    this.open.splice(this.open.indexOf(transaction), 1)
    if (commit) for (const seq of transaction.drawn) this.visible.add(seq)
  }

  writers(): OpenWriter[] {
    return this.open.map(({ name, prepared }) => ({ writer: name, prepared }))
  }

  /** As a read with a snapshot of now. */
  from(from: bigint): bigint[] {
    return [...this.visible].filter((seq) => seq >= from).toSorted((a, b) => (a < b ? -1 : 1))
  }

  #at(at: number): Transaction | undefined {
    return this.open[at % Math.max(1, this.open.length)]
  }
}

/** A turn with the shard, step by step, so that anything can come between. */
class Turn {
  readonly #table: Table
  readonly #start: ScanStart
  #next: 'seen' | 'writers' | 'begin' | 'read' = 'seen'
  #seenBefore: bigint | undefined
  #writers: OpenWriter[] = []
  #scan: Scan | undefined

  constructor(table: Table, start: ScanStart) {
    this.#table = table
    this.#start = start
  }

  step(): void {
    if (this.#next === 'seen') {
      this.#seenBefore = this.#start.seenBefore()
      this.#next = 'writers'
    } else if (this.#next === 'writers') {
      this.#writers = this.#table.writers()
      this.#next = 'begin'
    } else if (this.#next === 'begin') {
      const seenBefore = this.#seenBefore
      this.#scan = this.#start.begin(
        seenBefore === undefined ? undefined : { seenBefore, open: this.#writers },
      )
      this.#next = 'read'
    } else {
      const { from } = this.#scan!
      const found = this.#table.from(from)
      expect(this.#table.from(0n)).toEqual(found)
      const batch = found.slice(0, BATCH)
      this.#start.end(this.#scan!, batch[0], batch.at(-1))
      for (const seq of batch) this.#table.visible.delete(seq)
      this.#start.deleted(batch.length * DELETED)
      this.#next = 'seen'
    }
  }
}

const step = fc.oneof(
  fc.record({ do: fc.constant('begin' as const) }),
  fc.record({ do: fc.constantFrom('draw', 'prepare', 'commit', 'abort'), at: fc.nat({ max: 5 }) }),
  { weight: 6, arbitrary: fc.record({ do: fc.constantFrom('turn 1', 'turn 2') }) },
)

test('O12 a start of scan never skips a message, however late its transaction commits, prepared ones too', () => {
  let moved = 0
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300, size: 'max' }), (steps) => {
      const table = new Table()
      const start = new ScanStart()
      const turns = { 'turn 1': new Turn(table, start), 'turn 2': new Turn(table, start) }
      for (const one of steps) {
        if (one.do === 'begin') table.begin()
        else if (one.do === 'turn 1' || one.do === 'turn 2') turns[one.do].step()
        else {
          const { at } = one as { at: number }
          if (one.do === 'draw') table.draw(at)
          else if (one.do === 'prepare') table.prepare(at)
          else table.end(at, one.do === 'commit')
        }
      }
      while (table.open.length > 0) table.end(0, true)
      for (let n = 0; n < 100 && table.visible.size > 0; n++) turns['turn 1'].step()
      if (start.begin().from > 0n) moved++
    }),
    { seed: 4711, numRuns: 2000 },
  )
  expect(moved).toBeGreaterThan(500)
})
