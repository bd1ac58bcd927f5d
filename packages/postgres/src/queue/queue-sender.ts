/* PostgreSQL takes a batch as arrays, and can notify; MySQL and MariaDB cut a batch into packets. */
import type { Session } from '@txbox/core'
import type { MessageToStore, Notify, QueueSender } from '@txbox/core/ports'
import { storedValues } from '@txbox/sql/stores'
import { valuesByColumn } from '../outbox/outbox-store.ts'
import { UNKEYED_SHARD } from './queue-receive-statements.ts'
import { queueStatements } from './queue-statements.ts'
import { queueChannelOf } from '../connection/identifiers.ts'
import { execute } from '../connection/session.ts'
import type { Notifier } from '../notify/notifier.ts'

const SENDING = 'sending messages to a queue'

export class PostgresQueueSender implements QueueSender {
  readonly #sql: ReturnType<typeof queueStatements>
  readonly #channel: string
  readonly #notifier: Notifier

  constructor(schema: string, notifier: Notifier) {
    this.#sql = queueStatements(schema)
    this.#notifier = notifier
    this.#channel = queueChannelOf(schema)
  }

  async send(
    session: Session,
    messages: readonly MessageToStore[],
    options?: { readonly notify?: Notify | undefined },
  ): Promise<void> {
    await this.#store(session, messages)
    // Nobody is woken for scheduled messages: they are not due.
    const due = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const queues = [...new Set(due.map(({ topic }) => topic!))]
    const notifications = queues.map((queue) => ({ channel: this.#channel, payload: queue }))
    await this.#notifier.notify(session, notifications, options?.notify ?? false)
  }

  async #store(session: Session, messages: readonly MessageToStore[]): Promise<void> {
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
