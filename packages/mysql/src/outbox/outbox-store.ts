/*
 * MySQL and MariaDB lock rows for keys, and split a batch into packets; PostgreSQL has advisory locks, takes a batch as
 * arrays, and can notify.
 */
import { SchemaError, type Session } from '@txbox/core'
import type { MessageToStore, OutboxStore } from '@txbox/core/ports'
import { keyLocksOf } from '@txbox/core/internal'
import { OUT_OF_RANGE, hasNumber } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { storedValues } from '@txbox/sql/stores'
import { insertMessages } from './insert-messages.ts'
import { fill } from '../connection/literals.ts'
import { KEY_LOCKS, outboxStatements } from './outbox-statements.ts'

const STORING = 'storing messages in the outbox'

/** The outbox table of MySQL and MariaDB, for producers. {@link OutboxStore} documents the methods. */
export class MysqlOutboxStore implements OutboxStore {
  readonly #sql: ReturnType<typeof outboxStatements>

  constructor(tables: Tables) {
    this.#sql = outboxStatements(tables)
  }

  async append(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly lockKeys?: boolean },
  ): Promise<void> {
    const now = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const later = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const { append, appendRow, appendLockedRow, takeBack, schedule, scheduleRow, takeBackScheduled } =
      this.#sql
    const locks = options?.lockKeys === true ? lockRowsOf(now) : []
    const rowOf = (message: MessageToStore, n: number): string => {
      const values = storedValues(message)
      return n > 0 || locks.length === 0
        ? fill(appendRow, values)
        : fill(appendLockedRow, [locks.length, message.shard, locks, ...values.slice(1)])
    }
    const laterRowOf = (message: MessageToStore): string => {
      const atMs = message.deliverAt!.getTime()
      return fill(scheduleRow, [...storedValues(message), atMs, atMs])
    }
    await insertMessages(
      session,
      [
        { messages: now, insert: append, rowOf, takeBack },
        { messages: later, insert: schedule, rowOf: laterRowOf, takeBack: takeBackScheduled },
      ],
      { call: 'publish', doing: STORING, explain },
    )
  }
}

function lockRowsOf(messages: readonly MessageToStore[]): readonly number[] {
  // Each prefix has its own table of locks, so the number does not have to depend on the prefix.
  const rows = keyLocksOf(messages, '').map((lock) => Number(BigInt.asUintN(64, lock) % BigInt(KEY_LOCKS)))
  return [...new Set(rows)]
}

function explain(error: unknown): never {
  if (!hasNumber(error, OUT_OF_RANGE)) throw error
  throw new SchemaError(
    'publish: the table of locks for ordering keys (key_locks) does not have all of its rows. Run the file of migration ' +
      "0009_key_locks that 'npx txbox migrate --print' writes. Nothing was written.",
    { cause: error },
  )
}
