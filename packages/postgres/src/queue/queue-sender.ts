/* PostgreSQL takes a batch as arrays, and can notify; MySQL and MariaDB cut a batch into packets. */
import type { Session } from '@txbox/core'
import type { MessageToStore, QueueSender } from '@txbox/core/ports'
import { storedValues } from '@txbox/sql/stores'
import { valuesByColumn } from '../outbox/outbox-store.ts'
import { UNKEYED_SHARD } from './queue-receive-statements.ts'
import { queueStatements } from './queue-statements.ts'
import { queueChannelOf } from '../connection/identifiers.ts'
import { execute } from '../connection/session.ts'

const SENDING = 'sending messages to a queue'

export class PostgresQueueSender implements QueueSender {
  readonly #sql: ReturnType<typeof queueStatements>
  readonly #channel: string

  constructor(schema: string) {
    this.#sql = queueStatements(schema)
    this.#channel = queueChannelOf(schema)
  }

  async send(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly notify?: boolean },
  ): Promise<void> {
    if (options?.notify === true) {
      for (const queue of new Set(messages.map(({ topic }) => topic))) {
        await execute(session, SENDING, this.#sql.notify, [this.#channel, queue])
      }
    }
    const scheduled = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    if (scheduled.length > 0) {
      const instants = scheduled.map(({ deliverAt }) => deliverAt!.getTime())
      const values = [...valuesByColumn(scheduled.map(queueValues)), instants]
      await execute(session, SENDING, this.#sql.schedule, values)
    }
    const rows = messages.filter(({ deliverAt }) => deliverAt === undefined).map(queueValues)
    const [only, ...more] = rows
    if (only === undefined) return
    if (more.length === 0) await execute(session, SENDING, this.#sql.send, only)
    else await execute(session, SENDING, this.#sql.sendBatch, valuesByColumn(rows))
  }
}

function queueValues(message: MessageToStore): readonly unknown[] {
  return storedValues(message.key === undefined ? { ...message, shard: UNKEYED_SHARD } : message)
}
