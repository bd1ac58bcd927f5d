/* PostgreSQL finds, locks and removes in one statement; MySQL and MariaDB need a transaction of three. */
import type { CollectionRecord, GarbageStore, Removal } from '@txbox/core'
import type { Source } from '@txbox/sql'
import { isTimeout } from './errors.ts'
import type { garbageStatements } from './garbage-statements.ts'
import { runAlone } from './run-alone.ts'

/** The garbage of PostgreSQL. {@link GarbageStore} documents the methods. */
export class PostgresGarbageStore implements GarbageStore {
  readonly #sql: ReturnType<typeof garbageStatements>
  readonly #source: Source

  constructor(statements: ReturnType<typeof garbageStatements>, source: Source) {
    this.#sql = statements
    this.#source = source
  }

  removeExpiredClaims(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    return this.#remove('removing expired claims', this.#sql.removeExpiredClaims, [limit, from ?? '0'])
  }

  removeDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    const values = [limit, from ?? '0', retentionMs]
    return this.#remove('removing dead letters', this.#sql.removeDeadLetters, values)
  }

  removeRedrives(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    const values = [limit, from ?? '0', retentionMs]
    return this.#remove('removing records of redrives', this.#sql.removeRedrives, values)
  }

  removeBufferedDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    const values = [limit, from ?? '0', retentionMs]
    const doing = 'removing dead letters of version buffers'
    return this.#remove(doing, this.#sql.removeBufferedDeadLetters, values)
  }

  async record({ inbox, deadLetters, durationMs }: CollectionRecord): Promise<void> {
    const values = [inbox, deadLetters, Math.round(durationMs)]
    await runAlone(this.#source, 'recording what was collected', this.#sql.record, values)
  }

  async #remove(doing: string, text: string, values: readonly unknown[]): Promise<Removal | 'timed-out'> {
    try {
      const { rows } = await runAlone(this.#source, doing, text, values)
      const removed = Number(rows[0]?.['removed'])
      return { removed, more: removed === values[0], next: (rows[0]?.['next'] as string | null) ?? undefined }
    } catch (error) {
      if (isTimeout(error)) return 'timed-out'
      throw error
    }
  }
}
