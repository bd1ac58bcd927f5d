/*
 * MySQL and MariaDB split a batch into packets, and check for a transaction; PostgreSQL takes a batch as arrays, and
 * can notify.
 */
import type { Session } from '@txbox/core'
import type { NewStoredMessage, QueueSender } from '@txbox/core/ports'
import { insertMessages, valuesOf } from '../outbox/insert-messages.ts'
import { fill } from '../connection/literals.ts'
import type { queueStatements } from './queue-statements.ts'

/** The queues of MySQL and MariaDB, for senders. {@link QueueSender} documents the methods. */
export class MysqlQueueSender implements QueueSender {
  readonly #sql: ReturnType<typeof queueStatements>

  constructor(statements: ReturnType<typeof queueStatements>) {
    this.#sql = statements
  }

  async send(session: Session, messages: readonly NewStoredMessage[]): Promise<void> {
    const now = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const later = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const { send, sendRow, schedule, scheduleRow, takeBack } = this.#sql
    const rowOf = (message: NewStoredMessage): string => {
      const { key } = message
      return fill(sendRow, [...valuesOf(message), key === undefined ? null : { utf8: key }])
    }
    const laterRowOf = (message: NewStoredMessage): string => {
      const atMs = message.deliverAt!.getTime()
      // The instant 0 is stored as 1 ms, because `due_at` at the epoch marks handled messages.
      return fill(scheduleRow, [...valuesOf(message), atMs, Math.max(atMs, 1)])
    }
    await insertMessages(
      session,
      [
        { messages: now, insert: send, rowOf, takeBack },
        { messages: later, insert: schedule, rowOf: laterRowOf, takeBack },
      ],
      { call: 'send', doing: 'storing messages in the queue' },
    )
  }
}
