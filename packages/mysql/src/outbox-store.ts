/*
 * MySQL and MariaDB cut a batch into packets, and check for a transaction; PostgreSQL takes a batch as arrays, and can
 * notify.
 */
import {
  InvalidMessageError,
  NotInTransactionError,
  SchemaError,
  type NewStoredMessage,
  type OutboxStore,
  type Session,
} from '@txbox/core'
import { keyLocksOf, oneLine } from '@txbox/core/internal'
import { OUT_OF_RANGE, hasNumber } from './errors.ts'
import { fill } from './literals.ts'
import { KEY_LOCKS, type outboxStatements } from './outbox-statements.ts'
import { rowsByPacket } from './rows-by-packet.ts'
import { assertInTransaction, execute, type MysqlSession } from './session.ts'

const STORING = 'storing messages in the outbox'

/** The outbox table of MySQL and MariaDB, for producers. {@link OutboxStore} documents the methods. */
export class MysqlOutboxStore implements OutboxStore {
  readonly #sql: ReturnType<typeof outboxStatements>

  constructor(statements: ReturnType<typeof outboxStatements>) {
    this.#sql = statements
  }

  async append(
    session: Session,
    messages: readonly NewStoredMessage[],
    options?: { readonly lockKeys?: boolean },
  ): Promise<void> {
    const { maxStatementBytes } = (session as MysqlSession).server
    const now = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const later = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const { append, appendRow, appendLockedRow, takeBack, schedule, scheduleRow, takeBackScheduled } =
      this.#sql
    const locks = options?.lockKeys === true ? lockRowsOf(now) : []
    const firstRow = locks.length === 0 ? undefined : { template: appendLockedRow, locks }
    const statements = [
      ...statementsOf(now, { insert: append, row: appendRow, firstRow, takeBack }, maxStatementBytes),
      ...statementsOf(
        later,
        { insert: schedule, row: scheduleRow, takeBack: takeBackScheduled },
        maxStatementBytes,
      ),
    ]
    // Checked first, because a committed message may be published at once, and cannot be deleted then.
    await assertInTransaction(session)
    for (const { text, ids, takeBack } of statements) {
      const { inTransaction, insertId } = await execute(session, STORING, text, []).catch(explain)
      if (inTransaction !== false) continue
      await execute(session, STORING, takeBack, [insertId ?? 0, ids])
      throw new NotInTransactionError(
        'The transaction ended while publish was in flight: await publish before the transaction commits. What was ' +
          'written outside it was deleted again.',
      )
    }
  }
}

interface Statement {
  readonly text: string
  readonly ids: readonly string[]
  readonly takeBack: string
}

/** Returns one statement, or several if one would be longer than the server accepts. */
function statementsOf(
  messages: readonly NewStoredMessage[],
  {
    insert,
    row: template,
    firstRow,
    takeBack,
  }: {
    insert: (rows: readonly string[]) => string
    row: string
    /** The first row, if it takes locks. */
    firstRow?: { readonly template: string; readonly locks: readonly number[] } | undefined
    takeBack: string
  },
  maxBytes: number,
): readonly Statement[] {
  const headBytes = insert([]).length
  const rows = messages.map((message, n) => {
    const values = valuesOf(message)
    const row =
      firstRow === undefined || n > 0
        ? fill(template, values)
        : fill(firstRow.template, [firstRow.locks.length, message.shard, firstRow.locks, ...values.slice(1)])
    const bytes = row.length + 1
    if (headBytes + bytes > maxBytes) throw tooLarge(message, bytes, maxBytes)
    return { row, id: message.id }
  })
  return rowsByPacket(rows, headBytes, maxBytes).map((packet) => ({
    text: insert(packet.map(({ row }) => row)),
    ids: packet.map(({ id }) => id),
    takeBack,
  }))
}

/** Returns the rows of the table of locks that stand for the keys of the messages. */
function lockRowsOf(messages: readonly NewStoredMessage[]): readonly number[] {
  // Each prefix has a table of locks of its own.
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

function tooLarge(message: NewStoredMessage, bytes: number, maxBytes: number): InvalidMessageError {
  return new InvalidMessageError(
    `publish: message '${oneLine(message.id)}' with its payload of ${message.payload.byteLength} bytes needs a statement of ${bytes} ` +
      `bytes; the server accepts at most ${maxBytes} (max_allowed_packet). Raise max_allowed_packet (16 MiB are enough for ` +
      'the largest payload that publish accepts), or store the payload elsewhere. Nothing was written.',
  )
}

function valuesOf(message: NewStoredMessage) {
  return [
    message.shard,
    message.id,
    message.topic,
    message.key ?? null,
    message.type ?? null,
    message.contentType,
    JSON.stringify(message.headers),
    message.correlationId ?? null,
    message.payload,
    ...(message.deliverAt === undefined ? [] : [message.deliverAt.getTime(), message.deliverAt.getTime()]),
  ]
}
