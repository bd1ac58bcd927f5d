/*
 * PostgreSQL takes a batch as arrays, and can notify; MySQL and MariaDB split a batch into packets, and check for a
 * transaction.
 */
import type { Session } from '@txbox/core'
import type { MessageToStore, OutboxStore } from '@txbox/core/ports'
import { storedValues } from '@txbox/sql/stores'
import { outboxStatements } from './outbox-statements.ts'
import { keyLocksOf } from '@txbox/core/internal'
import { channelOf } from '../connection/identifiers.ts'
import { execute } from '../connection/session.ts'

const STORING = 'storing messages in the outbox'

export class PostgresOutboxStore implements OutboxStore {
  readonly #sql: ReturnType<typeof outboxStatements>
  readonly #channel: string
  /**
   * The quoted schema. It is part of the number of an advisory lock, because advisory locks belong to the whole
   * database.
   */
  readonly #schema: string

  constructor(schema: string) {
    this.#sql = outboxStatements(schema)
    this.#channel = channelOf(schema)
    this.#schema = schema
  }

  async append(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly notify?: boolean; readonly lockKeys?: boolean },
  ): Promise<void> {
    const scheduled = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const now =
      scheduled.length === 0 ? messages : messages.filter(({ deliverAt }) => deliverAt === undefined)
    // The INSERT comes first, so that a later call that is not awaited does not overtake this one.
    if (now.length > 0) await this.#insert(session, now, options?.lockKeys === true)
    if (scheduled.length > 0) await this.#schedule(session, scheduled)
    if (options?.notify === true) await execute(session, STORING, this.#sql.notify, [this.#channel, ''])
  }

  async #insert(session: Session, messages: readonly MessageToStore[], lockKeys: boolean): Promise<void> {
    const rows = messages.map(storedValues)
    const [only, ...more] = rows as [readonly unknown[], ...(readonly unknown[])[]]
    const locks = lockKeys ? keyLocksOf(messages, this.#schema).map(String) : []
    if (more.length === 0) {
      const [lock] = locks
      if (lock === undefined) await execute(session, STORING, this.#sql.append, only)
      else await execute(session, STORING, this.#sql.appendLocked, [...only, lock])
    } else if (locks.length === 0) {
      await execute(session, STORING, this.#sql.appendBatch, valuesByColumn(rows))
    } else {
      await execute(session, STORING, this.#sql.appendBatchLocked, [...valuesByColumn(rows), locks])
    }
  }

  async #schedule(session: Session, messages: readonly MessageToStore[]): Promise<void> {
    const rows = messages.map((message) => [...storedValues(message), message.deliverAt!.getTime()])
    await execute(session, STORING, this.#sql.schedule, valuesByColumn(rows))
  }
}

export function valuesByColumn(rows: readonly (readonly unknown[])[]): readonly unknown[] {
  return rows[0]!.map((_, column) => rows.map((row) => row[column]))
}
