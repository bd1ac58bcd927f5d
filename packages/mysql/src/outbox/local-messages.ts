/* MySQL and MariaDB join messages with their subscribers in a statement that is split into packets; PostgreSQL takes arrays. */
import type { MessageToStore, Subscribers } from '@txbox/core/ports'
import { givenConsumers } from '@txbox/core/internal'
import { storedValues } from '@txbox/sql/stores'
import { fill } from '../connection/literals.ts'
import type { Insertion } from './insert-messages.ts'
import { BETWEEN_MESSAGES, type outboxStatements } from './outbox-statements.ts'

type Statements = ReturnType<typeof outboxStatements>

/** The maximum number of messages of a statement: each is a branch of a UNION. */
const MAX_BRANCHES = 500

/** The rows for the local consumers of messages. */
export class LocalMessages {
  readonly #sql: Statements
  readonly #subscribers: Subscribers

  constructor(sql: Statements, subscribers: Subscribers) {
    this.#sql = sql
    this.#subscribers = subscribers
  }

  /** Returns the messages that have no topic, and no consumer that the outbox was created with. */
  doubtful(messages: readonly MessageToStore[]): readonly MessageToStore[] {
    return messages.filter(
      ({ topic, type }) => topic === undefined && givenConsumers(this.#subscribers, type).length === 0,
    )
  }

  insertions(now: readonly MessageToStore[], later: readonly MessageToStore[]): readonly Insertion[] {
    const { appendLocal, localMessage, takeBackLocal } = this.#sql
    const { scheduleLocal, scheduledLocalMessage, takeBackScheduledLocal } = this.#sql
    return [
      ...this.#piecesOf(now).map((messages) =>
        this.#insertion(messages, appendLocal, takeBackLocal, (message, n) =>
          fill(localMessage, [n, ...storedValues(message)]),
        ),
      ),
      ...this.#piecesOf(later).map((messages) =>
        this.#insertion(messages, scheduleLocal, takeBackScheduledLocal, (message, n) =>
          fill(scheduledLocalMessage, [n, ...storedValues(message), message.deliverAt!.getTime()]),
        ),
      ),
    ]
  }

  #insertion(
    messages: readonly MessageToStore[],
    insert: Statements['appendLocal'],
    takeBack: string,
    rowOf: Insertion['rowOf'],
  ): Insertion {
    const subscribers = this.#subscribersOf(messages)
    return {
      messages,
      insert: (rows, ofRows) => insert(rows, subscribers, this.#conditions(ofRows)),
      rowOf,
      takeBack,
      separator: BETWEEN_MESSAGES,
      mustWrite: (ofRows) => this.#mustBeRouted(ofRows).length > 0,
    }
  }

  /** Messages that may have subscribers, in lists that are not too long. */
  #piecesOf(messages: readonly MessageToStore[]): readonly (readonly MessageToStore[])[] {
    const { registered } = this.#subscribers
    const subscribed = messages.filter(
      ({ type }) => type !== undefined && (registered || givenConsumers(this.#subscribers, type).length > 0),
    )
    const pieces: (readonly MessageToStore[])[] = []
    for (let from = 0; from < subscribed.length; from += MAX_BRANCHES) {
      pieces.push(subscribed.slice(from, from + MAX_BRANCHES))
    }
    return pieces
  }

  #subscribersOf(messages: readonly MessageToStore[]): readonly string[] {
    const { registeredSubscribers, givenSubscriber } = this.#sql
    const types = typesOf(messages)
    const given = types.flatMap((type) =>
      givenConsumers(this.#subscribers, type).map((consumer) =>
        fill(givenSubscriber, [Buffer.from(type), Buffer.from(consumer)]),
      ),
    )
    if (!this.#subscribers.registered) return given
    return [fill(registeredSubscribers, [types.map((type) => Buffer.from(type))]), ...given]
  }

  #conditions(messages: readonly MessageToStore[]): readonly string[] {
    const types = this.#mustBeRouted(messages)
    if (types.length === 0) return []
    return [fill(this.#sql.routed, [types.map((type) => Buffer.from(type)), types.length])]
  }

  /** The types that must have a registered subscriber. */
  #mustBeRouted(messages: readonly MessageToStore[]): readonly string[] {
    return this.#subscribers.unrouted === 'refuse' ? typesOf(this.doubtful(messages)) : []
  }
}

export function typesOf(messages: readonly MessageToStore[]): readonly string[] {
  return [...new Set(messages.map(({ type }) => type).filter((type) => type !== undefined))]
}
