/* PostgreSQL finds, locks and removes in one statement; MySQL and MariaDB need a transaction of three. */
import type { CollectionRecord, GarbageStore, Removal } from '@txbox/core'
import { removeHandled, type HandledShards, type Source } from '@txbox/sql'
import { isTimeout } from './errors.ts'
import type { garbageStatements } from './garbage-statements.ts'
import { runAlone } from './run-alone.ts'

/** The garbage of PostgreSQL. {@link GarbageStore} documents the methods. */
export class PostgresGarbageStore implements GarbageStore {
  readonly #sql: ReturnType<typeof garbageStatements>
  readonly #source: Source
  readonly #handled: HandledShards

  constructor(statements: ReturnType<typeof garbageStatements>, source: Source, handled: HandledShards) {
    this.#sql = statements
    this.#source = source
    this.#handled = handled
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

  removeQueueDeadLetters(
    limit: number,
    from: string | undefined,
    retentionMs: number,
  ): Promise<Removal | 'timed-out'> {
    const values = [limit, from ?? '0', retentionMs]
    return this.#remove('removing dead letters of queues', this.#sql.removeQueueDeadLetters, values)
  }

  removeHandled(limit: number, from: string | undefined): Promise<Removal | 'timed-out'> {
    return unlessTimedOut(removeHandled(this.#handled, limit, from))
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

  #remove(doing: string, text: string, values: readonly unknown[]): Promise<Removal | 'timed-out'> {
    const removing = runAlone(this.#source, doing, text, values).then(({ rows: [row] }) => {
      const removed = Number(row?.['removed'])
      return { removed, more: removed === values[0], next: (row?.['next'] as string | null) ?? undefined }
    })
    return unlessTimedOut(removing)
  }
}

async function unlessTimedOut(removing: Promise<Removal>): Promise<Removal | 'timed-out'> {
  try {
    return await removing
  } catch (error) {
    if (isTimeout(error)) return 'timed-out'
    throw error
  }
}
