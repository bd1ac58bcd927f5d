/*
 * MySQL and MariaDB need a transaction of several statements to select, change and return dead letters; PostgreSQL
 * needs one.
 */
import type { DeadLetterFilter } from '@txbox/core'
import type { DeadLetterStore } from '@txbox/core/ports'
import {
  SqlDeadLetterStore,
  pageOf,
  positionOf,
  type Row,
  type Selecting,
  type SelectedRows,
} from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns, placeOf } from '../connection/columns.ts'
import {
  deadLetterStatements,
  localDeadLetterStatements,
  queueDeadLetterStatements,
} from './dead-letter-statements.ts'
import { bytesOf, fill, json } from '../connection/literals.ts'
import { runAlone, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine, type ByEngine } from '../connection/server.ts'
import type { Run } from '../connection/short-transaction.ts'

type Sql = ReturnType<
  typeof deadLetterStatements | typeof queueDeadLetterStatements | typeof localDeadLetterStatements
>

/**
 * The maximum number of keys in one statement: a key may have a thousand bytes, and a statement must fit into a packet.
 */
const KEYS_AT_ONCE = 100

/** Statements that find messages without locks, and lock them by their places. */
interface Search {
  readonly find: (conditions: readonly string[]) => string
  readonly lock: string
  /** Returns the condition by which the search continues after a position. */
  readonly behind: (
    sql: Sql,
    position: { readonly id: string; readonly place?: string | undefined },
  ) => string
}

/** @param of the stored queue whose dead letters these are, or whether they are those of the local consumers. */
export function deadLetterStore(
  tables: Tables,
  source: MysqlStatementRoot,
  { queue, local = false }: { readonly queue?: string; readonly local?: boolean },
): DeadLetterStore {
  const ofQueue = queue === undefined ? deadLetterStatements : queueDeadLetterStatements
  const statements: ByEngine<Sql> = byEngine<Sql>(local ? localDeadLetterStatements : ofQueue, tables)
  const sqlOf = async (): Promise<Sql> => statements[(await source.server()).engine]
  return new SqlDeadLetterStore({
    read: columns,
    async select(call, doing, filter, limit, by) {
      const sql = await sqlOf()
      const within = queue === undefined ? filter : withinQueue(queue, filter)
      if (call === 'list' || call === 'newest' || call === 'listParked') {
        const text = chosen(sql, sql[call], within, call === 'listParked' ? behindPlace : behindId)
        return pageOf((await runAlone(source, doing, text, [limit])).rows, limit)
      }
      return runTogether(source, doing, async (run) => {
        const found = await lockSelected(run, sql, call, within, limit)
        if (found.rows.length > 0) await change(run, sql, call, found.rows, by)
        return found
      })
    },
    async ofId(call, doing, id, parked, limit, consumer) {
      const ofConsumer = consumer === undefined ? null : Buffer.from(consumer)
      const within = queue === undefined ? [] : [Buffer.from(queue)]
      const values = [Buffer.from(id), ...(local ? [ofConsumer] : within)]
      const text = (await sqlOf())[call]
      return (await runAlone(source, doing, text, [...values, parked ? 1 : 0, limit])).rows
    },
    payloadOf: (row) => bytesOf(row['payload']),
  })
}

type Changing = Exclude<Selecting, 'list' | 'newest' | 'listParked'>

/** Other callers that select the same messages wait, and then find none. */
async function lockSelected(
  run: Run,
  sql: Sql,
  call: Changing,
  filter: DeadLetterFilter,
  limit: number,
): Promise<SelectedRows> {
  const { find, lock, behind } = searchOf(sql, call)
  const rows: Row[] = []
  let { after } = filter
  let last: Row | undefined
  // Callers take a page that is not full as the end of the list. Messages that another caller has taken are therefore
  // replaced by further ones.
  for (let more = true; more && rows.length < limit;) {
    const most = limit - rows.length
    const { rows: found } = await run(chosen(sql, find, { ...filter, after }, behind), [most])
    more = found.length === most
    last = more ? found.at(-1) : undefined
    if (found.length === 0) break
    after = positionOf(columns, found.at(-1)!)
    rows.push(...(await run(lock, [placesOf(found)])).rows)
  }
  return { rows, last }
}

function searchOf(sql: Sql, call: Changing): Search {
  if (call === 'discardParked') return { find: sql.findParked, lock: sql.lockParked, behind: behindPlace }
  if (call === 'retry') return { find: sql.findRetried, lock: sql.lockRetried, behind: behindPlace }
  return { find: sql.find, lock: sql.lock, behind: behindId }
}

/** Changes messages that are locked. */
async function change(run: Run, sql: Sql, call: Changing, rows: readonly Row[], by: string): Promise<void> {
  if (call === 'retry') {
    await run(sql.retry, [placesOf(rows)])
    return
  }
  if (call !== 'discardParked') {
    const places = firstOfEachKey(rows)
    if (call === 'redrive') await run(sql.record, [by, places])
    await run(sql[call], [places])
    return
  }
  await run(sql.discardParked, [placesOf(rows)])
  if ('handleParked' in sql) {
    await run(sql.handleParked, [placesOf(rows)])
    return
  }
  const keys = keysOf(rows)
  for (let from = 0; from < keys.length; from += KEYS_AT_ONCE) {
    const branches = keys
      .slice(from, from + KEYS_AT_ONCE)
      .map(({ consumer, shard, key }) => fill(sql.firstOfKey, [...consumer, shard, key]))
    const { rows: first } = await run(sql.firstOfKeys(branches), [])
    if (first.length > 0) await run(sql.release, [placesOf(first)])
  }
}

/** In the table of the stored queues, the topic is the name of the queue. */
function withinQueue(queue: string, filter: DeadLetterFilter): DeadLetterFilter {
  const isOther = filter.topic !== undefined && filter.topic !== queue
  return { ...filter, topic: queue, ...(isOther && { ids: [] }) }
}

function chosen(
  sql: Sql,
  statement: (conditions: readonly string[]) => string,
  { ids, topic, type, key, consumer, error, after }: DeadLetterFilter,
  behind: Search['behind'],
): string {
  const bytes = (value: string): Buffer => Buffer.from(value)
  const conditions = [
    // `IN ()` is not valid SQL, so the list always contains the empty text. No message has an empty id.
    ...(ids === undefined ? [] : [fill(sql.ids, [['', ...ids].map(bytes)])]),
    ...(topic === undefined ? [] : [fill(sql.topic, [bytes(topic)])]),
    ...(type === undefined ? [] : [fill(sql.type, [bytes(type)])]),
    ...(key === undefined ? [] : [fill(sql.key, [bytes(key)])]),
    ...(consumer === undefined || !('consumer' in sql) ? [] : [fill(sql.consumer, [bytes(consumer)])]),
    ...(error === undefined ? [] : [fill(sql.error, [bytes(error)])]),
    ...(after === undefined ? [] : [behind(sql, after)]),
  ]
  return statement(conditions)
}

const behindId: Search['behind'] = (sql, { id, place }) => {
  const bytes = Buffer.from(id)
  return place === undefined ? fill(sql.after, [bytes]) : fill(sql.afterPlace, [bytes, bytes, BigInt(place)])
}

/** Parked messages are listed in the order of their places. */
const behindPlace: Search['behind'] = (sql, { place = '0' }) => fill(sql.behind, [BigInt(place)])

function placesOf(rows: readonly Row[]): string {
  return json(rows.map(placeOf))
}

interface BlockedKey {
  /** The local consumer, if it is a key of one. */
  readonly consumer: readonly Buffer[]
  readonly shard: number
  readonly key: Buffer
}

/** Returns each key that was blocked by one of the rows. */
function keysOf(rows: readonly Row[]): readonly BlockedKey[] {
  const keys = new Map<string, BlockedKey>()
  for (const row of rows) {
    if (row['order_key'] === null) continue
    const key = bytesOf(row['order_key'])
    const shard = columns.number(row, 'shard')
    const consumer = columns.has(row, 'consumer') ? [bytesOf(row['consumer'])] : []
    keys.set(`${String(consumer)}/${shard}/${key.toString('latin1')}`, { consumer, shard, key })
  }
  return [...keys.values()]
}

/**
 * Returns, as JSON, each place with a flag: whether the message is the first of its key among these rows, or is not
 * part of the order of a key.
 */
function firstOfEachKey(rows: readonly Row[]): string {
  const seen = new Set<string>()
  const places = rows
    .map((row) => ({ row, place: columns.bigint(row, 'place') }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .map(({ row, place }) => {
      const key = columns.optionalText(row, 'key')
      if (key === undefined || columns.flag(row, 'scheduled')) return `[${place},1]`
      const consumer = columns.optionalText(row, 'consumer') ?? ''
      const name = `${consumer}/${columns.text(row, 'shard')}/${key}`
      const first = !seen.has(name)
      seen.add(name)
      return `[${place},${first ? 1 : 0}]`
    })
  return json(places)
}
