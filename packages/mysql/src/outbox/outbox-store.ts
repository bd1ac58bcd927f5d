/*
 * MySQL and MariaDB lock rows for keys, and split a batch into packets; PostgreSQL has advisory locks, takes a batch as
 * arrays, and can notify.
 */
import { SchemaError, TransactionConflictError, type InvalidMessageError, type Session } from '@txbox/core'
import type { MessageToStore, OutboxStore, Subscribers } from '@txbox/core/ports'
import { LISTED_TYPES, keyLocksOf, unroutedError } from '@txbox/core/internal'
import { columns } from '../connection/columns.ts'
import { OUT_OF_RANGE, hasNumber } from '../connection/errors.ts'
import type { Tables } from '../connection/identifiers.ts'
import { storedValues } from '@txbox/sql/stores'
import { insertMessages, type Insertion } from './insert-messages.ts'
import { LocalMessages, typesOf } from './local-messages.ts'
import { fill } from '../connection/literals.ts'
import { KEY_LOCKS, outboxStatements } from './outbox-statements.ts'
import { assertInTransaction, execute } from '../connection/session.ts'

const STORING = 'storing messages in the outbox'

/** How often a call is tried again because its subscribers were registered while it was refused. */
const ROUNDS = 5

/** The outbox table of MySQL and MariaDB, for producers. {@link OutboxStore} documents the methods. */
export class MysqlOutboxStore implements OutboxStore {
  readonly #sql: ReturnType<typeof outboxStatements>

  constructor(tables: Tables) {
    this.#sql = outboxStatements(tables)
  }

  async append(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly lockKeys?: boolean; readonly subscribers?: Subscribers | undefined },
  ): Promise<void> {
    const now = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const later = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const locks = options?.lockKeys === true ? lockRowsOf(now) : []
    if (options?.subscribers === undefined) {
      await this.#insert(session, this.#insertions(now, later, locks))
      return
    }
    const { subscribers } = options
    const local = new LocalMessages(this.#sql, subscribers)
    const doubtful = subscribers.unrouted === 'refuse' ? local.doubtful(messages) : []
    const unroutable = doubtful.filter(({ type }) => type === undefined || !subscribers.registered)
    if (unroutable.length > 0) throw await this.#unrouted(session, unroutable, subscribers)
    if (locks.length > 0) await this.#lock(session, locks)
    const withTopic = ({ topic }: MessageToStore): boolean => topic !== undefined
    // The subscriptions decide whether anything is stored, so the rows for local consumers come first.
    const insertions = [
      ...local.insertions(now, later),
      ...this.#insertions(now.filter(withTopic), later.filter(withTopic), []),
    ]
    for (let round = 1; !(await this.#insert(session, insertions)); round++) {
      const refused = await this.#withoutSubscribers(session, doubtful)
      if (refused.length > 0) throw await this.#unrouted(session, refused, subscribers)
      if (round === ROUNDS) throw changedSubscriptions()
    }
  }

  #insertions(
    now: readonly MessageToStore[],
    later: readonly MessageToStore[],
    locks: readonly number[],
  ): readonly Insertion[] {
    const { append, appendRow, appendLockedRow, takeBack, schedule, scheduleRow, takeBackScheduled } =
      this.#sql
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
    return [
      { messages: now, insert: append, rowOf, takeBack },
      { messages: later, insert: schedule, rowOf: laterRowOf, takeBack: takeBackScheduled },
    ]
  }

  #insert(session: Session, insertions: readonly Insertion[]): Promise<boolean> {
    return insertMessages(session, insertions, { call: 'publish', doing: STORING, explain })
  }

  async #lock(session: Session, locks: readonly number[]): Promise<void> {
    await assertInTransaction(session)
    const { rows } = await execute(session, STORING, this.#sql.lockKeys, [locks])
    if (columns.number(rows[0], 'locked') !== locks.length) throw missingLocks()
  }

  async #withoutSubscribers(
    session: Session,
    messages: readonly MessageToStore[],
  ): Promise<readonly MessageToStore[]> {
    const types = typesOf(messages).map((type) => Buffer.from(type))
    const { rows } = await execute(session, STORING, this.#sql.routedTypes, [types])
    const routed = new Set(rows.map((row) => columns.key(row, 'type')))
    return messages.filter(({ type }) => !routed.has(type!))
  }

  async #unrouted(
    session: Session,
    messages: readonly MessageToStore[],
    { given, registered }: Subscribers,
  ): Promise<InvalidMessageError> {
    const known = new Set(given.keys())
    if (registered) {
      const { rows } = await execute(session, STORING, this.#sql.knownTypes, [LISTED_TYPES + 1])
      for (const row of rows) known.add(columns.key(row, 'type'))
    }
    return unroutedError(
      messages.map(({ type }) => type),
      [...known].toSorted(),
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
  throw missingLocks(error)
}

function missingLocks(cause?: unknown): SchemaError {
  return new SchemaError(
    'publish: the table of locks for ordering keys (key_locks) does not have all of its rows. Run the file of migration ' +
      "0009_key_locks that 'npx txbox migrate --print' writes. Nothing was written.",
    { cause },
  )
}

function changedSubscriptions(): TransactionConflictError {
  return new TransactionConflictError(
    'publish: the subscriptions of the messages were added and removed again while the messages were being stored. Nothing was ' +
      'written. Roll back and run the transaction again.',
  )
}
