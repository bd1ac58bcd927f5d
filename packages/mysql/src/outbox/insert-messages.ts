/* MySQL and MariaDB split a batch into packets, and check for a transaction; PostgreSQL takes a batch as arrays. */
import { InvalidMessageError, NotInTransactionError, type Session } from '@txbox/core'
import type { MessageToStore } from '@txbox/core/ports'
import { oneLine } from '@txbox/core/internal'
import { rowsByPacket } from '../connection/rows-by-packet.ts'
import { assertInTransaction, execute, type MysqlSession } from '../connection/session.ts'

export interface Insertion {
  readonly messages: readonly MessageToStore[]
  /** @param messages the messages of the rows: as many of all messages as fit into a packet. */
  readonly insert: (rows: readonly string[], messages: readonly MessageToStore[]) => string
  readonly rowOf: (message: MessageToStore, n: number) => string
  /**
   * The statement that deletes rows that were written outside of a transaction, by the number of the first row and the
   * ids.
   */
  readonly takeBack: string
  /** What `insert` writes between two rows. @default ',' */
  readonly separator?: string
  /** Returns whether the statement must write a row. @default false */
  readonly mustWrite?: (messages: readonly MessageToStore[]) => boolean
}

/**
 * Inserts messages in the caller's transaction: with one statement for each insertion, or with several if one statement
 * would be longer than the server accepts.
 *
 * @param how `call` is the name of the user's call, for errors.
 * @returns `false` if a statement wrote no row that had to write one. Then nothing of the call is stored: what the statements
 *   before it wrote was deleted again.
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
): Promise<boolean> {
  const { maxStatementBytes } = (session as MysqlSession).server
  const statements = insertions.flatMap((insertion) => statementsOf(insertion, how.call, maxStatementBytes))
  // The transaction is checked before the INSERT: a message that commits at once may be delivered at once, and then it
  // cannot be taken back.
  await assertInTransaction(session)
  const written: Written[] = []
  for (const { text, ids, takeBack, mustWrite } of statements) {
    const { inTransaction, insertId, affected } = await execute(session, how.doing, text, []).catch(
      how.explain ?? rethrow,
    )
    if (inTransaction !== false) {
      if (mustWrite && affected === 0) {
        for (const one of written) await execute(session, how.doing, one.takeBack, [one.insertId, one.ids])
        return false
      }
      written.push({ takeBack, insertId: insertId ?? 0, ids })
      continue
    }
    await execute(session, how.doing, takeBack, [insertId ?? 0, ids])
    throw new NotInTransactionError(
      `The transaction ended while ${how.call} was in flight: await ${how.call} before the transaction commits. What was ` +
        'written outside it was deleted again.',
    )
  }
  return true
}

interface Statement {
  readonly text: string
  readonly ids: readonly string[]
  readonly takeBack: string
  readonly mustWrite: boolean
}

interface Written extends Pick<Statement, 'ids' | 'takeBack'> {
  readonly insertId: number
}

function statementsOf(
  { messages, insert, rowOf, takeBack, separator = ',', mustWrite }: Insertion,
  call: string,
  maxBytes: number,
): readonly Statement[] {
  const headBytes = insert([], messages).length
  const rows = messages.map((message, n) => {
    const row = rowOf(message, n)
    const bytes = row.length + separator.length
    if (headBytes + bytes > maxBytes) throw tooLarge(message, { call, bytes, maxBytes })
    return { row, message }
  })
  const bytesOf = ({ row }: { readonly row: string }): number => row.length + separator.length - 1
  return rowsByPacket(rows, headBytes, maxBytes, bytesOf).map((packet) => {
    const ofPacket = packet.map(({ message }) => message)
    return {
      text: insert(
        packet.map(({ row }) => row),
        ofPacket,
      ),
      ids: ofPacket.map(({ id }) => id),
      takeBack,
      mustWrite: mustWrite?.(ofPacket) === true,
    }
  })
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
