import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql } from '../database/sql.ts'
import { QUEUE } from '../workers/worker-protocol.ts'
import { LEDGER, committedOf, numberOf, textOf, type Committed, type Effect } from './history.ts'

/** An effect of a message of the queue. */
export interface QueueEffect extends Effect {
  /** The place that the payload names. */
  readonly place: number | undefined
  /** When the handler began and ended, in ms since 1970, by the database's clock. */
  readonly beganMs: number
  readonly endedMs: number
}

/** The outcomes of the messages of the queue. */
export interface QueueRecord {
  /** The ledger of the last primary. */
  readonly queued: ReadonlyMap<string, Committed>
  readonly queueEffects: readonly QueueEffect[]
  /** Messages that became dead letters, before they were redriven. */
  readonly queueDeadLetters: readonly { readonly id: string; readonly error: string | undefined }[]
}

export async function readQueued(sql: Sql): Promise<readonly Committed[]> {
  return (await sql.query(`select ${LEDGER} from chaos_queued order by serial`)).map(committedOf)
}

/** In the order of the effects. */
export async function readQueueEffects(sql: Sql, afterSerial = 0): Promise<readonly QueueEffect[]> {
  const rows = await sql.query(
    `select serial, message_id, place, worker, began_ms, ended_ms from chaos_queue_effects
     where serial > ? order by serial`,
    [afterSerial],
  )
  return rows.map((row) => ({
    serial: Number(row['serial']),
    id: String(row['message_id']),
    place: numberOf(row['place']),
    worker: String(row['worker']),
    beganMs: Number(row['began_ms']),
    endedMs: Number(row['ended_ms']),
  }))
}

/** The rows of the ledger whose effects are behind a serial number. */
export async function readHandled(sql: Sql, afterSerial: number): Promise<readonly Committed[]> {
  const rows = await sql.query(
    `select ${LEDGER} from chaos_queued
     where message_id in (select e.message_id from chaos_queue_effects as e where e.serial > ?)`,
    [afterSerial],
  )
  return rows.map(committedOf)
}

/** The messages of the ledger behind a serial number that are not in the queue, and have no effect. */
export async function readVanished(
  engine: Engine,
  sql: Sql,
  afterSerial: number,
): Promise<readonly Committed[]> {
  const { queue } = txboxTables(engine)
  const rows = await sql.query(
    `select ${LEDGER} from chaos_queued as c
     where c.serial > ?
       and not exists (select 1 from chaos_queue_effects as e where e.message_id = c.message_id)
       and c.message_id not in (select ${textIn(engine, 'q.id')} from ${queue} as q)`,
    [afterSerial],
  )
  return rows.map(committedOf)
}

/** A key of which no message is visible, in flight, or marked as handled: no receiver will look at it. */
export interface StuckKey {
  readonly key: string
  readonly messages: number
  /** The id of one of its messages. */
  readonly id: string
}

/** By one statement, which sees one state of the queue. */
export async function readStuckKeys(engine: Engine, sql: Sql): Promise<readonly StuckKey[]> {
  const { queue } = txboxTables(engine)
  const rows = await sql.query(
    `select ${textIn(engine, 'q.order_key')} as name, count(*) as messages, min(${textIn(engine, 'q.id')}) as id
     from ${queue} as q
     where q.topic = '${QUEUE}' and q.order_key is not null and q.dead_at is null
     group by q.order_key having count(q.due_at) = 0 order by 1`,
  )
  return rows.map((row) => ({
    key: String(row['name']),
    messages: Number(row['messages']),
    id: String(row['id']),
  }))
}

/** The rows of the queue except the marks of handled messages. */
export async function readLeftInQueue(
  engine: Engine,
  sql: Sql,
): Promise<readonly { readonly id: string; readonly isDead: boolean; readonly error: string | undefined }[]> {
  const { queue } = txboxTables(engine)
  const epoch = engine === 'postgres' ? `timestamptz 'epoch'` : `'1970-01-01'`
  const rows = await sql.query(
    `select ${textIn(engine, 'q.id')} as id, case when q.dead_at is null then 0 else 1 end as dead, q.error
     from ${queue} as q where q.due_at is null or q.due_at <> ${epoch} order by q.place`,
  )
  return rows.map((row) => ({
    id: String(row['id']),
    isDead: Number(row['dead']) === 1,
    error: textOf(row['error']),
  }))
}

/** A column that is binary on MySQL and MariaDB, as text. */
export function textIn(engine: Engine, column: string): string {
  return engine === 'postgres' ? column : `convert(${column} using utf8mb4)`
}
