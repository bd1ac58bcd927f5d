import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  ScanStart,
  ScanStarts,
  type OpenWriter,
  type Scan,
} from '../../packages/postgres/src/relay/remembered-numbers.ts'

/** The maximum number of messages of a read. */
const BATCH = 3
/** So many deleted rows that a query for open writers is worth its cost each time. */
const DELETED = 1000

interface Drawn {
  readonly seq: bigint
  readonly shard: number
}

interface Transaction {
  name: string
  prepared: boolean
  readonly drawn: Drawn[]
}

/** A table of two shards: numbers are drawn in order, and become visible when their transaction commits. */
class Table {
  #last = 0n
  #names = 0
  readonly open: Transaction[] = []
  readonly visible = new Set<Drawn>()

  begin(): void {
    this.open.push({ name: `1/${this.#names++}`, prepared: false, drawn: [] })
  }

  draw(at: number): void {
    const transaction = this.#at(at)
    if (transaction?.prepared === false) transaction.drawn.push({ seq: ++this.#last, shard: at % 2 })
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
    if (commit) for (const drawn of transaction.drawn) this.visible.add(drawn)
  }

  writers(): OpenWriter[] {
    return this.open.map(({ name, prepared }) => ({ writer: name, prepared }))
  }

  /** Reads with a new snapshot. */
  from(shard: number, from: bigint): Drawn[] {
    return [...this.visible]
      .filter((drawn) => drawn.shard === shard && drawn.seq >= from)
      .toSorted((a, b) => (a.seq < b.seq ? -1 : 1))
  }

  #at(at: number): Transaction | undefined {
    return this.open[at % Math.max(1, this.open.length)]
  }
}

/** A query for open writers, which the server evaluates at one time and answers at a later time. */
class Server {
  readonly #table: Table
  readonly #asked: { readonly tell: (writers: OpenWriter[]) => void; seen?: OpenWriter[] }[] = []
  questions = 0

  constructor(table: Table) {
    this.#table = table
  }

  readonly openWriters = (): Promise<readonly OpenWriter[]> =>
    new Promise((tell) => {
      this.questions++
      this.#asked.push({ tell })
    })

  look(at: number): void {
    const one = this.#asked[at % Math.max(1, this.#asked.length)]
    if (one !== undefined) one.seen ??= this.#table.writers()
  }

  async answer(at: number): Promise<void> {
    const seen = this.#asked.filter((one) => one.seen !== undefined)
    const one = seen[at % Math.max(1, seen.length)]
    if (one === undefined) return
    this.#asked.splice(this.#asked.indexOf(one), 1)
    one.tell(one.seen!)
    await settled()
  }
}

/** A turn with a shard, step by step, so that other events can happen in between. */
class Turn {
  readonly #table: Table
  readonly #starts: ScanStarts
  readonly #shard: number
  #scan: Scan | 'awaited' | undefined

  constructor(table: Table, starts: ScanStarts, shard: number) {
    this.#table = table
    this.#starts = starts
    this.#shard = shard
  }

  async step(): Promise<void> {
    if (this.#scan === 'awaited') return
    if (this.#scan === undefined) {
      this.#scan = 'awaited'
      void this.#starts.begin(this.#shard).then(({ scan }) => (this.#scan = scan))
      await settled()
      return
    }
    const found = this.#table.from(this.#shard, this.#scan.from)
    expect(this.#table.from(this.#shard, 0n)).toEqual(found)
    const batch = found.slice(0, BATCH)
    const start = this.#starts.of(this.#shard)
    start.end(this.#scan, batch[0]?.seq, batch.at(-1)?.seq)
    for (const drawn of batch) this.#table.visible.delete(drawn)
    start.deleted(batch.length * DELETED)
    this.#scan = undefined
  }
}

async function settled(): Promise<void> {
  for (let n = 0; n < 8; n++) await Promise.resolve()
}

const at = fc.nat({ max: 5 })
const of = <D extends string>(...what: D[]) => fc.record({ do: fc.constantFrom(...what), at })
const step = fc.oneof(
  of('begin'),
  { weight: 4, arbitrary: of('draw') },
  { weight: 2, arbitrary: of('prepare', 'commit', 'commit', 'abort') },
  { weight: 4, arbitrary: of('look', 'answer') },
  { weight: 7, arbitrary: of('turn 1', 'turn 2', 'turn 3') },
)

test('O12 a start of scan never skips a message, however late its transaction commits, prepared ones too', async () => {
  let moved = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 500, size: 'max' }), async (steps) => {
      const table = new Table()
      const server = new Server(table)
      const starts = new ScanStarts(server.openWriters)
      // Two turns of one shard: the turn of a lost lease may still be in flight.
      const turns = {
        'turn 1': new Turn(table, starts, 0),
        'turn 2': new Turn(table, starts, 0),
        'turn 3': new Turn(table, starts, 1),
      }
      for (const one of steps) {
        if (one.do === 'begin') table.begin()
        else if (one.do === 'draw') table.draw(one.at)
        else if (one.do === 'prepare') table.prepare(one.at)
        else if (one.do === 'look') server.look(one.at)
        else if (one.do === 'answer') await server.answer(one.at)
        else if (one.do === 'commit' || one.do === 'abort') table.end(one.at, one.do === 'commit')
        else await turns[one.do].step()
      }
      while (table.open.length > 0) table.end(0, true)
      for (let n = 0; n < 100 && table.visible.size > 0; n++) {
        for (const turn of Object.values(turns)) await turn.step()
        server.look(0)
        await server.answer(0)
      }
      expect(table.visible.size).toBe(0)
      if (starts.of(0).from() > 0n) moved++
    }),
    { seed: 4711, numRuns: 2000 },
  )
  expect(moved).toBeGreaterThan(500)
})

test('O12 a number that is read while the query is in flight may be greater than a number that has not appeared yet', () => {
  const start = new ScanStart()
  const answered = start.look()
  // Meanwhile one session draws 5 and waits, another session draws 6 and commits, and 6 is read.
  start.end({ from: 0n, certain: undefined, life: 0 }, 6n, 6n)
  answered([])
  start.end(start.begin(), undefined, undefined)
  start.look()([{ writer: 'of 5', prepared: false }])
  start.end(start.begin(), undefined, undefined)

  expect(start.from()).toBeLessThan(5n)
})

test('O12 one query for open writers serves all shards, and no shard waits while another one sends it', async () => {
  const server = new Server(new Table())
  const starts = new ScanStarts(server.openWriters)
  for (const shard of [0, 1, 2]) starts.of(shard).deleted(DELETED)

  const asking = starts.begin(0)
  await starts.begin(1)
  expect(server.questions).toBe(1)
  server.look(0)
  await server.answer(0)
  await asking
  await starts.begin(1)
  await starts.begin(2)
  expect(server.questions).toBe(1)
})

test('O12 after a failed query for open writers another query is sent', async () => {
  let questions = 0
  const starts = new ScanStarts(async () => {
    if (++questions === 1) throw new Error('no answer')
    return []
  })
  starts.of(0).deleted(DELETED)

  await expect(starts.begin(0)).rejects.toThrow('no answer')
  await starts.begin(0)
  expect(questions).toBe(2)
})
