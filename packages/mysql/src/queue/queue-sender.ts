/*
 * MySQL and MariaDB split a batch into packets, and check for a transaction; PostgreSQL takes a batch as arrays, and
 * can notify.
 */
import type { Session } from '@txbox/core'
import type { MessageToStore, QueueSender } from '@txbox/core/ports'
import type { Tables } from '../connection/identifiers.ts'
import { storedValues } from '@txbox/sql/stores'
import { insertMessages } from '../outbox/insert-messages.ts'
import { fill } from '../connection/literals.ts'
import { queueStatements } from './queue-statements.ts'

/** The queues of MySQL and MariaDB, for senders. {@link QueueSender} documents the methods. */
export class MysqlQueueSender implements QueueSender {
  readonly #sql: ReturnType<typeof queueStatements>

  constructor(tables: Tables) {
    this.#sql = queueStatements(tables)
  }

  async send(session: Session, messages: readonly MessageToStore[]): Promise<void> {
    const now = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const later = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const { send, sendRow, schedule, scheduleRow, takeBack } = this.#sql
    const rowOf = (message: MessageToStore): string => {
      const { key } = message
      return fill(sendRow, [...storedValues(message), key === undefined ? null : { utf8: key }])
    }
    const laterRowOf = (message: MessageToStore): string => {
      const atMs = message.deliverAt!.getTime()
      // The instant 0 is stored as 1 ms, because `due_at` at the epoch marks handled messages.
      return fill(scheduleRow, [...storedValues(message), atMs, Math.max(atMs, 1)])
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
