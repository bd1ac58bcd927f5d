/*
 * MySQL and MariaDB find, lock and remove messages in a transaction of several statements; PostgreSQL needs one
 * statement.
 */
import type { QueueStore } from '@txbox/core'
import type { Row } from '@txbox/sql'
import { columns } from './columns.ts'
import type { queuePurgeStatementsByEngine } from './queue-purge-statements.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { json, keyOf, lockRows, placeOf } from './queue-rows.ts'
import { runBounded, runTogether, type Source } from './run-alone.ts'

const PURGING = 'purging a queue'

type Statements = ReturnType<typeof queuePurgeStatementsByEngine>

/** Implements `purge` of {@link QueueStore}. */
export class QueuePurge {
  readonly #statements: Statements
  readonly #source: Source
  readonly #receiver: QueueReceiver

  constructor(statements: Statements, source: Source, receiver: QueueReceiver) {
    this.#statements = statements
    this.#source = source
    this.#receiver = receiver
  }

  async purge(queue: string, limit: number): ReturnType<QueueStore['purge']> {
    const { findIdle } = await this.#sql()
    const { rows } = await runBounded(this.#source, PURGING, findIdle, [{ utf8: queue }, limit])
    const shards = new Map<number, string[]>()
    for (const row of rows) {
      const shard = columns.number(row, 'shard')
      shards.set(shard, [...(shards.get(shard) ?? []), placeOf(row)])
    }
    let removed = 0
    for (const [shard, places] of shards) removed += await this.#purgeShard(queue, shard, places)
    const forgotten = await this.#forget(queue, limit)
    // If nothing was removed, all remaining messages are locked by other transactions, so there is no point in going
    // on.
    return { removed, more: (rows.length === limit && removed > 0) || forgotten === limit }
  }

  #purgeShard(queue: string, shard: number, places: readonly string[]): Promise<number> {
    return runTogether(this.#source, PURGING, async (run) => {
      const sql = await this.#receiver.sql()
      const locked = await this.#receiver.shard(run, queue, shard)
      await locked.wait()
      const idle = (await lockRows(run, sql, places)).filter(isIdle)
      if (idle.length === 0) return 0
      await run(sql.remove, [json(idle.map(placeOf))])
      await locked.release(idle.map(keyOf))
      return idle.length
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

  async #sql(): Promise<Statements['mysql']> {
    return this.#statements[(await this.#source.server()).engine]
  }
}

/** Whether a message is neither in flight, nor a dead letter, nor handled. */
function isIdle(row: Row): boolean {
  const isHandled = columns.optionalText(row, 'due_us') === '0'
  return !isHandled && !columns.flag(row, 'dead') && (row['receipt'] === null || columns.flag(row, 'visible'))
}

function keysOf(rows: readonly Row[]): string {
  return JSON.stringify(rows.map((row) => columns.text(row, 'key')))
}
