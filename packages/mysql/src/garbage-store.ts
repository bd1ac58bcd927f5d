/* MySQL and MariaDB find, lock and remove in a transaction of three statements; PostgreSQL needs one. */
import type { CollectionRecord, GarbageStore, Removal } from '@txbox/core'
import { removeHandled, type HandledShards, type Row } from '@txbox/sql'
import { columns } from './columns.ts'
import { isTimeout } from './errors.ts'
import type { garbageStatementsByEngine } from './garbage-statements.ts'
import { fill } from './literals.ts'
import { placeOf } from './queue-rows.ts'
import { runTogether, type Source } from './run-alone.ts'

type Statements = ReturnType<typeof garbageStatementsByEngine>

/** The garbage of MySQL and MariaDB. {@link GarbageStore} documents the methods. */
export class MysqlGarbageStore implements GarbageStore {
  readonly #statements: Statements
  readonly #source: Source
  readonly #handled: HandledShards

  constructor(statements: Statements, source: Source, handled: HandledShards) {
    this.#statements = statements
    this.#source = source
    this.#handled = handled
  }

  removeExpiredClaims(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    const key = (row: Row): unknown => [columns.text(row, 'consumer'), columns.text(row, 'key')]
    return this.#remove('removing expired claims', limit, from, key, (sql) => ({
      find: fill(sql.findExpiredClaims, [BigInt(from ?? 0), limit]),
      lock: sql.lockExpiredClaims,
      lockValues: [],
      remove: sql.removeClaims,
    }))
  }

  removeDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    return this.#remove('removing dead letters', limit, from, placeOf, (sql) => ({
      find: fill(sql.findDeadLetters, [Math.round(retentionMs * 1000), BigInt(from ?? 0), limit]),
      lock: sql.lockDeadLetters,
      lockValues: [Math.round(retentionMs * 1000)],
      remove: sql.removeDeadLetters,
    }))
  }

  removeQueueDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    return this.#remove('removing dead letters of queues', limit, from, placeOf, (sql) => ({
      find: fill(sql.findQueueDeadLetters, [Math.round(retentionMs * 1000), BigInt(from ?? 0), limit]),
      lock: sql.lockQueueDeadLetters,
      lockValues: [Math.round(retentionMs * 1000)],
      remove: sql.removeQueueDeadLetters,
    }))
  }

  async removeHandled(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    try {
      return await removeHandled(this.#handled, limit, from)
    } catch (error) {
      if (isTimeout(error)) return 'timed-out'
      throw error
    }
  }

  removeRedrives(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    const key = (row: Row): unknown => [
      columns.text(row, 'id'),
      columns.text(row, 'at'),
      columns.text(row, 'place'),
    ]
    return this.#remove('removing records of redrives', limit, from, key, (sql) => ({
      find: fill(sql.findRedrives, [Math.round(retentionMs * 1000), BigInt(from ?? 0), limit]),
      lock: sql.lockRedrives,
      lockValues: [],
      remove: sql.removeRedrives,
    }))
  }

  removeBufferedDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    const key = (row: Row): unknown => [
      columns.text(row, 'consumer'),
      columns.text(row, 'key'),
      columns.text(row, 'from_version'),
    ]
    const retention = Math.round(retentionMs * 1000)
    return this.#remove('removing dead letters of version buffers', limit, from, key, (sql) => ({
      find: fill(sql.findBufferedDeadLetters, [retention, BigInt(from ?? 0), limit]),
      lock: sql.lockBufferedDeadLetters,
      lockValues: [retention],
      remove: sql.removeBufferedDeadLetters,
    }))
  }

  async record({ inbox, deadLetters, durationMs }: CollectionRecord): Promise<void> {
    const sql = await this.#sql()
    await runTogether(this.#source, 'recording what was collected', async (run) => {
      const { rows } = await run(sql.findRecord, [])
      if (rows.length > 0) await run(sql.record, [inbox, deadLetters, Math.round(durationMs)])
    })
  }

  async #remove(
    doing: string,
    limit: number,
    from: string | undefined,
    keyOf: (row: Row) => unknown,
    of: (sql: Statements['mysql']) => {
      readonly find: string
      readonly lock: string
      readonly lockValues: readonly number[]
      readonly remove: string
    },
  ): Promise<Removal | 'timed-out'> {
    try {
      const statements = of(await this.#sql())
      return await runTogether(this.#source, doing, async (run) => {
        const { rows: found } = await run(statements.find, [])
        if (found.length === 0) return { removed: 0, more: false, next: undefined }
        const { rows: locked } = await run(statements.lock, [
          JSON.stringify(found.map(keyOf)),
          ...statements.lockValues,
        ])
        if (locked.length > 0) await run(statements.remove, [JSON.stringify(locked.map(keyOf))])
        const next = columns.text(found.at(-1), 'instant')
        // Another collector has locked all rows of one instant, and continues with them.
        const stuck = locked.length === 0 && next === from
        return { removed: locked.length, more: found.length === limit && !stuck, next }
      })
    } catch (error) {
      if (isTimeout(error)) return 'timed-out'
      throw error
    }
  }

  async #sql(): Promise<Statements['mysql']> {
    return this.#statements[(await this.#source.server()).engine]
  }
}
