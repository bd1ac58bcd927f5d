import {
  InvalidMessageError,
  NotInTransactionError,
  oneLine,
  type NewStoredMessage,
  type OutboxStore,
  type Session,
} from '@txbox/core'
import { fill } from './literals.ts'
import type { outboxStatements } from './outbox-statements.ts'
import { rowsByPacket } from './rows-by-packet.ts'
import { assertInTransaction, execute, type MysqlSession } from './session.ts'

const STORING = 'storing messages in the outbox'

/** The outbox table of MySQL and MariaDB, for producers. The contract is that of the port. */
export class MysqlOutboxStore implements OutboxStore {
  readonly #sql: ReturnType<typeof outboxStatements>

  constructor(statements: ReturnType<typeof outboxStatements>) {
    this.#sql = statements
  }

  async append(session: Session, messages: readonly NewStoredMessage[]): Promise<void> {
    const { maxStatementBytes } = (session as MysqlSession).server
    const now = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const later = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const { append, appendRow, takeBack, schedule, scheduleRow, takeBackScheduled } = this.#sql
    const statements = [
      ...statementsOf(now, { head: append, row: appendRow, takeBack }, maxStatementBytes),
      ...statementsOf(
        later,
        { head: schedule, row: scheduleRow, takeBack: takeBackScheduled },
        maxStatementBytes,
      ),
    ]
    // Asked first: what is committed is published, so that it cannot be taken back for sure.
    await assertInTransaction(session)
    for (const { text, ids, takeBack } of statements) {
      const { inTransaction, insertId } = await execute(session, STORING, text, [])
      if (inTransaction !== false) continue
      await execute(session, STORING, takeBack, [insertId ?? 0, ids])
      throw new NotInTransactionError(
        'The transaction has ended while publish was under way: await publish before the transaction commits. What was ' +
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

/** One statement; several, where one of them would be longer than the server takes. */
function statementsOf(
  messages: readonly NewStoredMessage[],
  { head, row: template, takeBack }: { head: string; row: string; takeBack: string },
  maxBytes: number,
): readonly Statement[] {
  const rows = messages.map((message) => {
    const row = fill(template, valuesOf(message))
    const bytes = row.length + 1
    if (head.length + bytes > maxBytes) throw tooLarge(message, bytes, maxBytes)
    return { row, id: message.id }
  })
  return rowsByPacket(rows, head.length, maxBytes).map((packet) => ({
    text: head + packet.map(({ row }) => row).join(','),
    ids: packet.map(({ id }) => id),
    takeBack,
  }))
}

function tooLarge(message: NewStoredMessage, bytes: number, maxBytes: number): InvalidMessageError {
  return new InvalidMessageError(
    `publish: message '${oneLine(message.id)}' with its payload of ${message.payload.byteLength} bytes makes a statement of ${bytes} ` +
      `bytes; the server takes at most ${maxBytes} (max_allowed_packet). Raise max_allowed_packet (16 MiB hold the largest ` +
      'payload that publish takes), or store the payload elsewhere. Nothing was written.',
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
