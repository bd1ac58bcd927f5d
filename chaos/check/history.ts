import { LOCKED_KEYS, txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql, SqlRow } from '../database/sql.ts'

/** A row of a ledger: a message that a transaction published, or sent to the queue, and committed. */
export interface Committed {
  readonly serial: number
  readonly id: string
  readonly key: string | undefined
  readonly epoch: string
  /** The place within the key and the epoch, from 1 on; absent for scheduled and poisonous messages. */
  readonly place: number | undefined
  readonly deliverAtMs: number | undefined
  readonly ill: string | undefined
  readonly producer: string
}

export interface LeaseChange {
  readonly atMs: number
  readonly shard: number
  readonly owner: string | undefined
}

/** A settlement by a relay that did not hold the lease, found by a trigger. */
export interface Unfenced {
  readonly atMs: number
  readonly shard: number
  readonly id: string
  readonly owner: string | undefined
  readonly settledBy: string
}

export interface Effect {
  readonly serial: number
  readonly id: string
  readonly worker: string
}

export async function readCommitted(sql: Sql): Promise<readonly Committed[]> {
  return (await sql.query(`select ${LEDGER} from chaos_committed order by serial`)).map(committedOf)
}

/** The columns of a ledger. */
export const LEDGER = 'serial, message_id, name, epoch, place, deliver_at_ms, ill, producer'

export function committedOf(row: SqlRow): Committed {
  return {
    serial: Number(row['serial']),
    id: String(row['message_id']),
    key: textOf(row['name']),
    epoch: String(row['epoch']),
    place: numberOf(row['place']),
    deliverAtMs: numberOf(row['deliver_at_ms']),
    ill: textOf(row['ill']),
    producer: String(row['producer']),
  }
}

export async function readEffects(sql: Sql): Promise<readonly Effect[]> {
  const rows = await sql.query('select serial, message_id, worker from chaos_effects order by serial')
  return rows.map((row) => ({
    serial: Number(row['serial']),
    id: String(row['message_id']),
    worker: String(row['worker']),
  }))
}

export async function readLeaseChanges(sql: Sql): Promise<readonly LeaseChange[]> {
  const rows = await sql.query('select at_ms, shard, owner from chaos_lease_log order by at_ms')
  return rows.map((row) => ({
    atMs: Number(row['at_ms']),
    shard: Number(row['shard']),
    owner: textOf(row['owner']),
  }))
}

export async function readUnfenced(sql: Sql): Promise<readonly Unfenced[]> {
  const rows = await sql.query(
    'select at_ms, shard, message_id, owner, settled_by from chaos_unfenced order by at_ms',
  )
  return rows.map((row) => ({
    atMs: Number(row['at_ms']),
    shard: Number(row['shard']),
    id: String(row['message_id']),
    owner: textOf(row['owner']),
    settledBy: String(row['settled_by']),
  }))
}

/** The rows of the ledger behind a serial number whose key has no aggregate, so that only the ledger has their places. */
export async function readNumbered(sql: Sql, afterSerial: number): Promise<readonly Committed[]> {
  const names = LOCKED_KEYS.map(() => '?').join(', ')
  const rows = await sql.query(
    `select ${LEDGER} from chaos_committed where name in (${names}) and serial > ?`,
    [...LOCKED_KEYS, afterSerial],
  )
  return rows.map(committedOf)
}

/** A request for which more than one send stored a message; at most one such request. */
export async function readStoredTwice(
  sql: Sql,
): Promise<{ readonly request: string; readonly id: string } | undefined> {
  const [row] = await sql.query(
    `select request, max(message_id) as id from chaos_sends where message_id = new_id
     group by request having count(*) > 1 limit 1`,
  )
  return row && { request: String(row['request']), id: String(row['id']) }
}

/** The ids of the ledger behind a serial number that are neither in the outbox nor parked: they must be published. */
export async function readGone(engine: Engine, sql: Sql, afterSerial: number): Promise<readonly string[]> {
  const { outbox, parked } = txboxTables(engine)
  // The id of a parked message is binary on MySQL and MariaDB.
  const parkedId = engine === 'postgres' ? 'p.id' : 'convert(p.id using utf8mb4)'
  const rows = await sql.query(
    `select c.message_id from chaos_committed as c
     left join (select o.id as id from ${outbox} as o union all select ${parkedId} as id from ${parked} as p) as there
       on there.id = c.message_id
     where c.serial > ? and there.id is null`,
    [afterSerial],
  )
  return rows.map((row) => String(row['message_id']))
}

/** The messages that the inbox has a claim for, and that have no effect; at most a few. */
export async function readClaimsWithoutEffect(engine: Engine, sql: Sql): Promise<readonly string[]> {
  const { inbox } = txboxTables(engine)
  const key = engine === 'postgres' ? 'i.key' : 'convert(i.`key` using utf8mb4)'
  const rows = await sql.query(
    `select ${key} as id from ${inbox} as i left join chaos_effects as e on e.message_id = ${key}
     where i.consumer = 'chaos' and e.message_id is null limit 10`,
  )
  return rows.map((row) => textOf(row['id'])!)
}

export function textOf(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  return Buffer.isBuffer(value) ? value.toString('utf8') : `${value as string | number}`
}

export function numberOf(value: unknown): number | undefined {
  return value === null || value === undefined ? undefined : Number(value)
}
