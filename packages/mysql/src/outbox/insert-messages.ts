/* MySQL and MariaDB split a batch into packets, and check for a transaction; PostgreSQL takes a batch as arrays. */
import { InvalidMessageError, NotInTransactionError, type Session } from '@txbox/core'
import type { MessageToStore } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'
import { rowBytes, rowsByPacket } from '../connection/rows-by-packet.ts'
import { assertInTransaction, execute, type MysqlSession } from '../connection/session.ts'

interface Insertion {
  readonly messages: readonly MessageToStore[]
  readonly insert: (rows: readonly string[]) => string
  readonly rowOf: (message: MessageToStore, n: number) => string
  /**
   * The statement that deletes rows that were written outside of a transaction, by the number of the first row and the
   * ids.
   */
  readonly takeBack: string
}

/**
 * Inserts messages in the caller's transaction: with one statement for each insertion, or with several if one statement
 * would be longer than the server accepts.
 *
 * @param how `call` is the name of the user's call, for errors.
 * @throws {NotInTransactionError} outside of a transaction. Rows that were written are deleted again.
 */
export async function insertMessages(
  session: Session,
  insertions: readonly Insertion[],
  how: {
    readonly call: 'publish' | 'send'
    readonly doing: string
    readonly explain?: (error: unknown) => never
  },
): Promise<void> {
  const { maxStatementBytes } = (session as MysqlSession).server
  const statements = insertions.flatMap((insertion) => statementsOf(insertion, how.call, maxStatementBytes))
  // The transaction is checked before the INSERT: a message that commits at once may be delivered at once, and then it
  // cannot be taken back.
  await assertInTransaction(session)
  for (const { text, ids, takeBack } of statements) {
    const { inTransaction, insertId } = await execute(session, how.doing, text, []).catch(
      how.explain ?? rethrow,
    )
    if (inTransaction !== false) continue
    await execute(session, how.doing, takeBack, [insertId ?? 0, ids])
    throw new NotInTransactionError(
      `The transaction ended while ${how.call} was in flight: await ${how.call} before the transaction commits. What was ` +
        'written outside it was deleted again.',
    )
  }
}

interface Statement {
  readonly text: string
  readonly ids: readonly string[]
  readonly takeBack: string
}

function statementsOf(
  { messages, insert, rowOf, takeBack }: Insertion,
  call: string,
  maxBytes: number,
): readonly Statement[] {
  const headBytes = insert([]).length
  const rows = messages.map((message, n) => {
    const row = rowOf(message, n)
    const bytes = row.length + 1
    if (headBytes + bytes > maxBytes) throw tooLarge(message, { call, bytes, maxBytes })
    return { row, id: message.id }
  })
  return rowsByPacket(rows, headBytes, maxBytes, rowBytes).map((packet) => ({
    text: insert(packet.map(({ row }) => row)),
    ids: packet.map(({ id }) => id),
    takeBack,
  }))
}

function rethrow(error: unknown): never {
  throw error
}

function tooLarge(
  message: MessageToStore,
  { call, bytes, maxBytes }: { call: string; bytes: number; maxBytes: number },
): InvalidMessageError {
  return new InvalidMessageError(
    `${call}: message '${oneLine(message.id)}' with its payload of ${message.payload.byteLength} bytes needs a statement of ${bytes} ` +
      `bytes; the server accepts at most ${maxBytes} (max_allowed_packet). Raise max_allowed_packet (16 MiB are enough for ` +
      `the largest payload that ${call} accepts), or store the payload elsewhere. Nothing was written.`,
  )
}
