/*
 * PostgreSQL takes a batch as arrays, and can notify; MySQL and MariaDB split a batch into packets, and check for a
 * transaction.
 */
import type { Session } from '@txbox/core'
import type { MessageToStore, Notify, OutboxStore, Subscribers } from '@txbox/core/ports'
import { storedValues } from '@txbox/sql/stores'
import { outboxStatements } from './outbox-statements.ts'
import { LISTED_TYPES, givenConsumers, keyLocksOf, unroutedError } from '@txbox/core/internal'
import { columns } from '../connection/columns.ts'
import { channelOf, localChannelOf } from '../connection/identifiers.ts'
import { execute } from '../connection/session.ts'
import type { Notification, Notifier } from '../notify/notifier.ts'

const STORING = 'storing messages in the outbox'

export class PostgresOutboxStore implements OutboxStore {
  readonly #sql: ReturnType<typeof outboxStatements>
  readonly #notifier: Notifier
  /**
   * The quoted schema. It is part of the number of an advisory lock, because advisory locks belong to the whole
   * database.
   */
  readonly #schema: string

  constructor(schema: string, notifier: Notifier) {
    this.#sql = outboxStatements(schema)
    this.#notifier = notifier
    this.#schema = schema
  }

  async append(
    session: Session,
    messages: readonly MessageToStore[],
    options?: {
      readonly notify?: Notify | undefined
      readonly lockKeys?: boolean
      readonly subscribers?: Subscribers | undefined
    },
  ): Promise<void> {
    const { subscribers, notify = false } = options ?? {}
    if (subscribers !== undefined)
      await this.#appendSubscribed(session, messages, subscribers, options?.lockKeys === true)
    else await this.#append(session, messages, options?.lockKeys === true)
    if (notify !== false) {
      await this.#notifier.notify(session, this.#notifications(messages, subscribers), notify)
    }
  }

  /** Nobody is woken for scheduled messages: they are not due. */
  #notifications(
    messages: readonly MessageToStore[],
    subscribers: Subscribers | undefined,
  ): readonly Notification[] {
    const due = messages.filter(({ deliverAt }) => deliverAt === undefined)
    const isForRelays = due.some(({ topic }) => topic !== undefined)
    const isForConsumers =
      subscribers !== undefined &&
      due.some(({ type }) => subscribers.registered || givenConsumers(subscribers, type).length > 0)
    return [
      ...(isForRelays ? [channelOf(this.#schema)] : []),
      ...(isForConsumers ? [localChannelOf(this.#schema)] : []),
    ].map((channel) => ({ channel, payload: '' }))
  }

  async #append(session: Session, messages: readonly MessageToStore[], lockKeys: boolean): Promise<void> {
    const scheduled = messages.filter(({ deliverAt }) => deliverAt !== undefined)
    const now =
      scheduled.length === 0 ? messages : messages.filter(({ deliverAt }) => deliverAt === undefined)
    // The INSERT comes first, so that a later call that is not awaited does not overtake this one.
    if (now.length > 0) await this.#insert(session, now, lockKeys)
    if (scheduled.length > 0) await this.#schedule(session, scheduled)
  }

  async #appendSubscribed(
    session: Session,
    messages: readonly MessageToStore[],
    subscribers: Subscribers,
    lockKeys: boolean,
  ): Promise<void> {
    const locks = lockKeys ? keyLocksOf(messages, this.#schema).map(String) : []
    // A statement of its own: the next one sees the subscriptions as they are after the wait.
    if (locks.length > 0) await execute(session, STORING, this.#sql.lockKeys, [locks])
    const switches = [subscribers.registered, subscribers.unrouted === 'refuse']
    const rows = messages.map(storedValues)
    const consumers = messages.map(({ type }) => givenConsumers(subscribers, type))
    const [only] = messages
    const { rows: unrouted } =
      messages.length === 1 && only!.deliverAt === undefined
        ? await execute(session, STORING, this.#sql.appendSubscribed, [
            ...rows[0]!,
            consumers[0]!,
            ...switches,
          ])
        : await execute(session, STORING, this.#sql.appendSubscribedBatch, [
            ...valuesByColumn(rows),
            consumers.flatMap((list, index) => list.map(() => index + 1)),
            consumers.flat(),
            ...switches,
            messages.map(({ deliverAt }) => deliverAt?.getTime() ?? null),
          ])
    if (unrouted.length === 0) return
    const types = unrouted.map((row) => columns.optionalText(row, 'type'))
    throw unroutedError(types, await this.#knownTypes(session, subscribers))
  }

  async #knownTypes(session: Session, { given, registered }: Subscribers): Promise<readonly string[]> {
    const known = new Set(given.keys())
    if (registered) {
      const { rows } = await execute(session, STORING, this.#sql.knownTypes, [LISTED_TYPES + 1])
      for (const row of rows) known.add(columns.text(row, 'type'))
    }
    return [...known].toSorted()
  }

  async #insert(session: Session, messages: readonly MessageToStore[], lockKeys: boolean): Promise<void> {
    const rows = messages.map(storedValues)
    const [only, ...more] = rows as [readonly unknown[], ...(readonly unknown[])[]]
    const locks = lockKeys ? keyLocksOf(messages, this.#schema).map(String) : []
    if (more.length === 0) {
      const [lock] = locks
      if (lock === undefined) await execute(session, STORING, this.#sql.append, only)
      else await execute(session, STORING, this.#sql.appendLocked, [...only, lock])
    } else if (locks.length === 0) {
      await execute(session, STORING, this.#sql.appendBatch, valuesByColumn(rows))
    } else {
      await execute(session, STORING, this.#sql.appendBatchLocked, [...valuesByColumn(rows), locks])
    }
  }

  async #schedule(session: Session, messages: readonly MessageToStore[]): Promise<void> {
    const rows = messages.map((message) => [...storedValues(message), message.deliverAt!.getTime()])
    await execute(session, STORING, this.#sql.schedule, valuesByColumn(rows))
  }
}

export function valuesByColumn(rows: readonly (readonly unknown[])[]): readonly unknown[] {
  return rows[0]!.map((_, column) => rows.map((row) => row[column]))
}
