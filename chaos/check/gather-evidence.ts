import { existsSync, readFileSync } from 'node:fs'
import { txboxTables } from '../database/chaos-tables.ts'
import type { Engine } from '../database/engine.ts'
import type { Sql, SqlRow } from '../database/sql.ts'
import type { Evidence } from './evidence.ts'
import type { Move } from './key-history.ts'
import {
  readLeftInQueue,
  readQueueEffects,
  readQueued,
  readStuckKeys,
  type QueueRecord,
} from './queue-history.ts'
import { readHttpEffects, readHttpResponses, readLeasedResponses } from './http-history.ts'
import { readLeftLocal, readLocal, readLocalEffects } from './local-history.ts'
import { readCommitted, readEffects, readLeaseChanges, readUnfenced, textOf } from './history.ts'

type FromDatabase = Pick<
  Evidence,
  | 'committed'
  | 'queued'
  | 'queueEffects'
  | 'stuckKeys'
  | 'local'
  | 'localEffects'
  | 'httpEffects'
  | 'httpResponses'
  | 'leasedResponses'
  | 'sends'
  | 'effects'
  | 'claims'
  | 'applied'
  | 'balances'
  | 'left'
  | 'leaseChanges'
  | 'unfenced'
>

/** Reads the final state of the database, after all workers have ended. */
export async function gatherFromDatabase(engine: Engine, sql: Sql): Promise<FromDatabase> {
  const { inbox } = txboxTables(engine)
  const key = engine === 'postgres' ? 'key' : '`key`'
  const claims = await sql.query(`select ${key} as id from ${inbox} where consumer = 'chaos'`)
  const applied = await sql.query(
    'select version_key, from_version, message_id from chaos_applied order by serial',
  )
  const balances = await sql.query('select version_key, version, total from chaos_balances')
  const sends = await sql.query('select request, message_id, new_id from chaos_sends order by serial')
  return {
    sends: sends.map((row) => ({
      request: String(row['request']),
      id: String(row['message_id']),
      newId: String(row['new_id']),
    })),
    committed: new Map((await readCommitted(sql)).map((message) => [message.id, message])),
    queued: new Map((await readQueued(sql)).map((message) => [message.id, message])),
    queueEffects: await readQueueEffects(sql),
    stuckKeys: await readStuckKeys(engine, sql),
    local: new Map((await readLocal(sql)).map((message) => [message.id, message])),
    localEffects: await readLocalEffects(sql),
    httpEffects: await readHttpEffects(sql),
    httpResponses: await readHttpResponses(engine, sql),
    leasedResponses: await readLeasedResponses(engine, sql),
    effects: await readEffects(sql),
    claims: claims.map((row) => textOf(row['id'])!),
    applied: applied.map((row) => ({
      versionKey: String(row['version_key']),
      from: Number(row['from_version']),
      id: String(row['message_id']),
    })),
    balances: new Map(
      balances.map((row) => [
        String(row['version_key']),
        { version: Number(row['version']), total: Number(row['total']) },
      ]),
    ),
    left: await readLeft(engine, sql),
    leaseChanges: await readLeaseChanges(sql),
    unfenced: await readUnfenced(sql),
  }
}

/** Rows of txbox that should not exist when all messages are handled and all workers have ended. */
async function readLeft(engine: Engine, sql: Sql): Promise<Evidence['left']> {
  const { outbox, parked, leases, waiting, versions } = txboxTables(engine)
  const now = engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
  const say = async (
    text: string,
    describe: (row: SqlRow) => { text: string; id?: string | undefined },
  ): Promise<Evidence['left']> => (await sql.query(text)).map(describe)
  const described = (where: string) => (row: SqlRow) => ({
    id: textOf(row['id']),
    text: `The message ${textOf(row['id'])} of shard ${String(row['shard'])} is still ${where}${why(row)}.`,
  })
  const why = (row: SqlRow): string => (row['error'] ? `: ${textOf(row['error'])}` : '')
  return [
    ...(await say(`select id, shard from ${outbox} order by seq limit 100`, described('in the outbox'))),
    ...(await say(`select id, shard, error from ${parked} order by place limit 100`, described('parked'))),
    ...(await readLeftInQueue(engine, sql)).slice(0, 100).map((message) => ({
      id: message.id,
      text: `The message ${message.id} is still in the queue${message.isDead ? ', as a dead letter' : ''}.`,
    })),
    ...(await readLeftLocal(engine, sql)).slice(0, 100).map(({ id, consumer, isDead, where, error }) => ({
      id,
      text: `The message ${id} of ${consumer} is still ${where}${isDead ? ', as a dead letter' : ''}${error ? `: ${error}` : ''}.`,
    })),
    ...(await say(
      `select name, owner from ${leases} where owner is not null and expires_at > ${now}`,
      (row) => ({ text: `The lease ${textOf(row['name'])} is still held by ${textOf(row['owner'])}.` }),
    )),
    ...(await say(`select consumer, from_version as v from ${waiting} limit 100`, (row) => ({
      text: `A message from version ${String(row['v'])} still waits in the version buffer of ${textOf(row['consumer'])}.`,
    }))),
    ...(await say(`select count(*) as n from ${versions} where waiting <> 0`, (row) => ({
      text:
        Number(row['n']) > 0 ? `${String(row['n'])} keys of the version buffer count waiting messages.` : '',
    }))),
  ].filter(({ text }) => text !== '')
}

export async function readDeadLetters(engine: Engine, sql: Sql): Promise<Evidence['deadLetters']> {
  const { parked } = txboxTables(engine)
  const rows = await sql.query(`select id, error from ${parked} where dead_at is not null order by place`)
  return rows.map((row) => ({ id: textOf(row['id'])!, error: textOf(row['error']) }))
}

/** The dead letters of the queue. */
export async function readQueueDeadLetters(
  engine: Engine,
  sql: Sql,
): Promise<QueueRecord['queueDeadLetters']> {
  return (await readLeftInQueue(engine, sql)).filter(({ isDead }) => isDead)
}

/** Reads the moves of these messages, for the history of a violation. */
export async function readMoves(sql: Sql, ids: Iterable<string>): Promise<readonly Move[]> {
  const moves: Move[] = []
  for (const id of ids) {
    const rows = await sql.query(
      'select at_ms, what, number, client from chaos_moves where message_id = ? order by serial',
      [id],
    )
    for (const row of rows) {
      const text = `${String(row['what'])}, number ${String(row['number'])}, by ${String(row['client'])}:`
      moves.push({ atMs: Number(row['at_ms']), id, text })
    }
  }
  return moves
}

export function readKills(file: string): readonly string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
}
