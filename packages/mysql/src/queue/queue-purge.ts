/*
 * MySQL and MariaDB find, lock and remove messages in a transaction of several statements; PostgreSQL needs one
 * statement.
 */
import { SchemaError } from '@txbox/core'
import type { QueueStore } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'
import type { Row } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns, placeOf } from '../connection/columns.ts'
import { queuePurgeStatements } from './queue-purge-statements.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { json } from '../connection/literals.ts'
import { keyOf, lockRows } from './queue-rows.ts'
import { runBounded, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { byEngine, type ByEngine } from '../connection/server.ts'

const PURGING = 'purging a queue'

/** No message has this place. A list in a statement must not be empty. */
const NO_PLACE = 0n

type Statements = ReturnType<typeof queuePurgeStatements>

export class QueuePurge {
  readonly #statements: ByEngine<Statements>
  readonly #source: MysqlStatementRoot
  readonly #receiver: QueueReceiver

  constructor(tables: Tables, source: MysqlStatementRoot, receiver: QueueReceiver) {
    this.#statements = byEngine(queuePurgeStatements, tables)
    this.#source = source
    this.#receiver = receiver
  }

  async purge(queue: string, limit: number): ReturnType<QueueStore['purge']> {
    let removed = 0
    let found: readonly Row[]
    // Messages that other transactions have locked are left out, so that they hide no other messages.
    const locked = [NO_PLACE]
    do {
      found = await this.#find(queue, locked, limit)
      if (found.length > 0) await this.#receiver.seed(queue)
      for (const [shard, rows] of Map.groupBy(found, (row) => columns.number(row, 'shard'))) {
        const places = rows.map(placeOf)
        const gone = new Set(await this.#purgeShard(queue, shard, places))
        removed += gone.size
        locked.push(...places.filter((place) => !gone.has(place)).map(BigInt))
      }
    } while (removed === 0 && found.length === limit)
    const forgotten = await this.#forget(queue, limit)
    return { removed, more: (found.length === limit && removed > 0) || forgotten === limit }
  }

  async #find(queue: string, leftOut: readonly bigint[], limit: number): Promise<readonly Row[]> {
    const { findIdle } = await this.#sql()
    return (await runBounded(this.#source, PURGING, findIdle, [{ utf8: queue }, leftOut, limit])).rows
  }

  /** @returns the places of the messages that were removed. */
  #purgeShard(queue: string, shard: number, places: readonly string[]): Promise<readonly string[]> {
    return runTogether(this.#source, PURGING, async (run) => {
      const sql = await this.#receiver.sql()
      const locked = await this.#receiver.shard(run, queue, shard)
      if (!(await locked.wait())) throw unseeded(queue)
      const idle = (await lockRows(run, sql, places)).filter(isIdle)
      if (idle.length === 0) return []
      await run(sql.remove, [json(idle.map(placeOf))])
      await locked.release(idle.map(keyOf))
      return idle.map(placeOf)
    })
  }

  /** Forgets the deduplication ids of a queue. */
  async #forget(queue: string, limit: number): Promise<number> {
    const consumer = { utf8: `@queue/${queue}` }
    const { findIds, lockIds, forget } = await this.#sql()
    return runTogether(this.#source, PURGING, async (run) => {
      const { rows: found } = await run(findIds, [consumer, limit])
      if (found.length === 0) return 0
      const { rows } = await run(lockIds, [keysOf(found), consumer])
      if (rows.length > 0) await run(forget, [keysOf(rows), consumer])
      return rows.length
    })
  }

  async #sql(): Promise<Statements> {
    return this.#statements[(await this.#source.server()).engine]
  }
}

function unseeded(queue: string): SchemaError {
  return new SchemaError(
    `Messages of the queue '${oneLine(queue)}' cannot be purged: the rows of the table for leases that stand for its shards are missing.`,
  )
}

/** Whether a message is neither in flight, nor a dead letter, nor handled. */
function isIdle(row: Row): boolean {
  const isHandled = columns.optionalText(row, 'due_us') === '0'
  return !isHandled && !columns.flag(row, 'dead') && (row['receipt'] === null || columns.flag(row, 'visible'))
}

function keysOf(rows: readonly Row[]): string {
  return JSON.stringify(rows.map((row) => columns.text(row, 'key')))
}
