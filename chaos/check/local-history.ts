import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql } from '../database/sql.ts'
import { LEDGER, committedOf, numberOf, textOf, type Committed } from './history.ts'
import { textIn, type QueueEffect } from './queue-history.ts'

/** An effect of a message at a local consumer. */
export interface LocalEffect extends QueueEffect {
  readonly consumer: string
  /** The call of the handler, which is the same for the messages of a batch. */
  readonly call: string
}

/** A message at a consumer that has given it up. */
export interface LocalDeadLetter {
  readonly consumer: string
  readonly id: string
  readonly error: string | undefined
}

/** The outcomes of the messages of the local consumers. */
export interface LocalRecord {
  /** The ledger of the last primary. Each of its messages is for each local consumer. */
  readonly local: ReadonlyMap<string, Committed>
  readonly localEffects: readonly LocalEffect[]
  /** Messages that became dead letters, before they were redriven. */
  readonly localDeadLetters: readonly LocalDeadLetter[]
}

export async function readLocal(sql: Sql): Promise<readonly Committed[]> {
  return (await sql.query(`select ${LEDGER} from chaos_local order by serial`)).map(committedOf)
}

/** In the order of the effects. */
export async function readLocalEffects(sql: Sql, afterSerial = 0): Promise<readonly LocalEffect[]> {
  const rows = await sql.query(
    `select serial, consumer, message_id, place, worker, handler_call, began_ms, ended_ms from chaos_local_effects
     where serial > ? order by serial`,
    [afterSerial],
  )
  return rows.map((row) => ({
    serial: Number(row['serial']),
    consumer: String(row['consumer']),
    id: String(row['message_id']),
    place: numberOf(row['place']),
    worker: String(row['worker']),
    call: String(row['handler_call']),
    beganMs: Number(row['began_ms']),
    endedMs: Number(row['ended_ms']),
  }))
}

/** The rows of the ledger whose effects are behind a serial number. */
export async function readLocalHandled(sql: Sql, afterSerial: number): Promise<readonly Committed[]> {
  const rows = await sql.query(
    `select ${LEDGER} from chaos_local
     where message_id in (select e.message_id from chaos_local_effects as e where e.serial > ?)`,
    [afterSerial],
  )
  return rows.map(committedOf)
}

/** The messages of the ledger behind a serial number that are neither stored for the consumer, nor have an effect there. */
export async function readLocalVanished(
  engine: Engine,
  sql: Sql,
  consumer: string,
  afterSerial: number,
): Promise<readonly Committed[]> {
  const { localOutbox, localParked } = txboxTables(engine)
  const there = (table: string): string =>
    `select ${textIn(engine, 'm.id')} from ${table} as m where ${textIn(engine, 'm.consumer')} = ?`
  const rows = await sql.query(
    `select ${LEDGER} from chaos_local as c
     where c.serial > ?
       and not exists (select 1 from chaos_local_effects as e where e.message_id = c.message_id and e.consumer = ?)
       and c.message_id not in (${there(localOutbox)} union all ${there(localParked)})`,
    [afterSerial, consumer, consumer, consumer],
  )
  return rows.map(committedOf)
}

/** A message that is stored for a local consumer. */
export interface LocalLeft extends LocalDeadLetter {
  readonly isDead: boolean
  readonly where: 'waiting' | 'parked'
}

export async function readLeftLocal(engine: Engine, sql: Sql): Promise<readonly LocalLeft[]> {
  const { localOutbox, localParked } = txboxTables(engine)
  const rows = await sql.query(
    `select ${textIn(engine, 'o.consumer')} as consumer, ${textIn(engine, 'o.id')} as id, 0 as dead, 'waiting' as place,
       null as error from ${localOutbox} as o
     union all
     select ${textIn(engine, 'p.consumer')}, ${textIn(engine, 'p.id')}, case when p.dead_at is null then 0 else 1 end, 'parked',
       p.error from ${localParked} as p`,
  )
  return rows.map((row) => ({
    consumer: String(row['consumer']),
    id: String(row['id']),
    isDead: Number(row['dead']) === 1,
    where: String(row['place']) === 'parked' ? 'parked' : 'waiting',
    error: textOf(row['error']),
  }))
}

export async function readLocalDeadLetters(engine: Engine, sql: Sql): Promise<readonly LocalDeadLetter[]> {
  return (await readLeftLocal(engine, sql)).filter(({ isDead }) => isDead)
}
