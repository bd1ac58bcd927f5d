/*
 * MySQL and MariaDB need a transaction of several statements to select, change and return dead letters; PostgreSQL
 * needs one.
 */
import type {
  DeadLetterFilter,
  DeadLetterPage,
  DeadLetterStore,
  ParkedMessage,
  KeptError,
  StoredPayload,
} from '@txbox/core'
import { DeadLetterRows, keptErrors, lastOfFull, type Row } from '@txbox/sql'
import { columns } from './columns.ts'
import type {
  deadLetterStatementsByEngine,
  queueDeadLetterStatementsByEngine,
} from './dead-letter-statements.ts'
import { bytesOf, fill, type Value } from './literals.ts'
import { runAlone, runTogether, type Source } from './run-alone.ts'
import type { Run } from './short-transaction.ts'

type Statements = ReturnType<typeof deadLetterStatementsByEngine | typeof queueDeadLetterStatementsByEngine>
type Sql = Statements['mysql']

const pages = new DeadLetterRows(columns)

/**
 * The maximum number of keys in one statement: a key may have a thousand bytes, and a statement must fit into a packet.
 */
const KEYS_AT_ONCE = 100

/** Statements that find messages without a lock, and lock them by their places. */
interface Search {
  readonly find: (conditions: readonly string[]) => string
  readonly lock: string
  /** The condition from which the search continues. */
  readonly behind: (
    sql: Sql,
    position: { readonly id: string; readonly place?: string | undefined },
  ) => string
}

/** The dead letters of MySQL and MariaDB. {@link DeadLetterStore} documents the methods. */
export class MysqlDeadLetterStore implements DeadLetterStore {
  readonly #statements: Statements
  readonly #source: Source
  readonly #queue: string | undefined

  /** @param queue the stored queue whose dead letters these are; the statements must be those of its table. */
  constructor(statements: Statements, source: Source, queue?: string) {
    this.#statements = statements
    this.#source = source
    this.#queue = queue
  }

  async list(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    const sql = await this.#sql()
    const text = chosen(sql, sql.list, this.#within(filter), behindId)
    const { rows } = await runAlone(this.#source, 'listing dead letters', text, [limit])
    return pages.deadLetters(rows, lastOfFull(rows, limit))
  }

  async redrive(filter: DeadLetterFilter, limit: number, by: string): Promise<DeadLetterPage> {
    const sql = await this.#sql()
    const search = { find: sql.find, lock: sql.lock, behind: behindId }
    const found = await this.#touch('redriving dead letters', search, filter, limit, async (run, rows) => {
      const places = firstOfEachKey(rows)
      await run(sql.record, [by, places])
      await run(sql.redrive, [places])
    })
    return pages.deadLetters(found.rows, found.last)
  }

  async discard(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage> {
    const sql = await this.#sql()
    const search = { find: sql.find, lock: sql.lock, behind: behindId }
    const found = await this.#touch('discarding dead letters', search, filter, limit, (run, rows) =>
      run(sql.discard, [firstOfEachKey(rows)]),
    )
    return pages.deadLetters(found.rows, found.last)
  }

  async listParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    const sql = await this.#sql()
    const text = chosen(sql, sql.listParked, this.#within(filter), behindPlace)
    const { rows } = await runAlone(this.#source, 'listing parked messages', text, [limit])
    return pages.parked(rows, lastOfFull(rows, limit))
  }

  async discardParked(filter: DeadLetterFilter, limit: number): Promise<DeadLetterPage<ParkedMessage>> {
    const sql = await this.#sql()
    const search = { find: sql.findParked, lock: sql.lockParked, behind: behindPlace }
    const found = await this.#touch(
      'discarding parked messages',
      search,
      filter,
      limit,
      async (run, rows) => {
        await run(sql.discardParked, [json(rows)])
        if ('handleParked' in sql) {
          await run(sql.handleParked, [json(rows)])
          return
        }
        const keys = keysOf(rows)
        for (let from = 0; from < keys.length; from += KEYS_AT_ONCE) {
          const branches = keys
            .slice(from, from + KEYS_AT_ONCE)
            .map(({ shard, key }) => fill(sql.firstOfKey, [shard, key]))
          const { rows: first } = await run(sql.firstOfKeys(branches), [])
          if (first.length > 0) await run(sql.release, [json(first)])
        }
      },
    )
    return pages.parked(found.rows, found.last)
  }

  async payloads(id: string, parked: boolean, limit: number): Promise<readonly StoredPayload[]> {
    const sql = await this.#sql()
    const values = this.#ofId(id, parked, limit)
    const { rows } = await runAlone(this.#source, 'reading a payload', sql.payloads, values)
    return rows.map((row) => ({
      contentType: columns.text(row, 'content_type'),
      headers: columns.text(row, 'headers'),
      payload: bytesOf(row['payload']),
    }))
  }

  async errors(id: string, parked: boolean, limit: number): Promise<readonly (readonly KeptError[])[]> {
    const values = this.#ofId(id, parked, limit)
    const { rows } = await runAlone(this.#source, 'reading errors', (await this.#sql()).errors, values)
    return rows.map((row) => keptErrors(columns.optionalText(row, 'errors')))
  }

  /**
   * Other callers that select the same messages wait, and find none.
   *
   * @returns the touched messages, and where the next page begins if there is one.
   */
  async #touch(
    doing: string,
    search: Search,
    filter: DeadLetterFilter,
    limit: number,
    work: (run: Run, rows: readonly Row[]) => Promise<unknown>,
  ): Promise<{ readonly rows: readonly Row[]; readonly last: Row | undefined }> {
    const sql = await this.#sql()
    return runTogether(this.#source, doing, async (run) => {
      const rows: Row[] = []
      let { after } = filter
      const within = this.#within(filter)
      let last: Row | undefined
      // A page that is not full means that there are no more messages, so messages that another caller has taken are
      // replaced.
      for (let more = true; more && rows.length < limit;) {
        const most = limit - rows.length
        const { rows: found } = await run(chosen(sql, search.find, { ...within, after }, search.behind), [
          most,
        ])
        more = found.length === most
        last = more ? found.at(-1) : undefined
        if (found.length === 0) break
        after = pages.positionOf(found.at(-1)!)
        rows.push(...(await run(search.lock, [json(found)])).rows)
      }
      if (rows.length > 0) await work(run, rows)
      return { rows, last }
    })
  }

  /** The filter, within the queue. The topic of a message in a queue is the queue. */
  #within(filter: DeadLetterFilter): DeadLetterFilter {
    const queue = this.#queue
    if (queue === undefined) return filter
    const isOther = filter.topic !== undefined && filter.topic !== queue
    return { ...filter, topic: queue, ...(isOther && { ids: [] }) }
  }

  #ofId(id: string, parked: boolean, limit: number): readonly Value[] {
    const ofQueue = this.#queue === undefined ? [] : [Buffer.from(this.#queue)]
    return [Buffer.from(id), ...ofQueue, parked ? 1 : 0, limit]
  }

  async #sql(): Promise<Sql> {
    return this.#statements[(await this.#source.server()).engine]
  }
}

/** Returns a statement for the messages that match the filter. */
function chosen(
  sql: Sql,
  statement: (conditions: readonly string[]) => string,
  { ids, topic, type, key, after }: DeadLetterFilter,
  behind: Search['behind'],
): string {
  const bytes = (value: string): Buffer => Buffer.from(value)
  const conditions = [
    // `IN ()` is not valid SQL. No message has an empty id.
    ...(ids === undefined ? [] : [fill(sql.ids, [['', ...ids].map(bytes)])]),
    ...(topic === undefined ? [] : [fill(sql.topic, [bytes(topic)])]),
    ...(type === undefined ? [] : [fill(sql.type, [bytes(type)])]),
    ...(key === undefined ? [] : [fill(sql.key, [bytes(key)])]),
    ...(after === undefined ? [] : [behind(sql, after)]),
  ]
  return statement(conditions)
}

const behindId: Search['behind'] = (sql, { id, place }) => {
  const bytes = Buffer.from(id)
  return place === undefined ? fill(sql.after, [bytes]) : fill(sql.afterPlace, [bytes, bytes, BigInt(place)])
}

/** Parked messages are in the order of their places. */
const behindPlace: Search['behind'] = (sql, { place = '0' }) => fill(sql.behind, [BigInt(place)])

/** The places of rows, as JSON. */
function json(rows: readonly Row[]): string {
  return `[${rows.map((row) => columns.text(row, 'place')).join(',')}]`
}

/** Returns each key that was blocked by one of the rows. */
function keysOf(rows: readonly Row[]): readonly { readonly shard: number; readonly key: Buffer }[] {
  const keys = new Map<string, { shard: number; key: Buffer }>()
  for (const row of rows) {
    if (row['order_key'] === null) continue
    const key = bytesOf(row['order_key'])
    const shard = columns.number(row, 'shard')
    keys.set(`${shard}/${key.toString('latin1')}`, { shard, key })
  }
  return [...keys.values()]
}

/** Returns, as JSON, each place and whether it is the first of its key among these rows, or has no order. */
function firstOfEachKey(rows: readonly Row[]): string {
  const seen = new Set<string>()
  const places = rows
    .map((row) => ({ row, place: columns.bigint(row, 'place') }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .map(({ row, place }) => {
      const key = columns.optionalText(row, 'key')
      if (key === undefined || columns.flag(row, 'scheduled')) return `[${place},1]`
      const name = `${columns.text(row, 'shard')}/${key}`
      const first = !seen.has(name)
      seen.add(name)
      return `[${place},${first ? 1 : 0}]`
    })
  return `[${places.join(',')}]`
}
