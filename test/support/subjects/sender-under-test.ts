import { randomUUID } from 'node:crypto'
import { TransactionConflictError, type DeduplicationOptions, type NewMessage } from '@txbox/core'
import { createOutbox, type Outbox, type OutboxOptions, type StoredId } from '@txbox/outbox'
import type { ClaimRow, OpenTransaction, Root, Target } from '../engines/target.ts'

/** A message to the topic of the sender. */
export type Sent = Partial<NewMessage>

/** An outbox that deduplicates, with its own topic, so that tests do not see each other's ids. */
export class SenderUnderTest {
  readonly topic = `topic-${randomUUID()}`
  readonly outbox: Outbox
  readonly #target: Target
  readonly #root: Pick<Root, 'begin'>
  /** The number of conflicts that the database reported. */
  conflicts = 0

  constructor(
    target: Target,
    root: Pick<Root, 'begin' | 'database'>,
    deduplication: DeduplicationOptions = {},
    options: Pick<OutboxOptions, 'notify'> = {},
  ) {
    this.#target = target
    this.#root = root
    this.outbox = createOutbox({ database: root.database, deduplication, ...options })
  }

  message(sent: Sent): NewMessage {
    return { topic: this.topic, payload: {}, ...sent }
  }

  /** Sends in a transaction that the caller ends. */
  sendIn(transaction: Pick<OpenTransaction, 'tx'>, sent: Sent): Promise<StoredId> {
    return this.outbox.publish(transaction.tx, this.message(sent))
  }

  sendAllIn(transaction: Pick<OpenTransaction, 'tx'>, sent: readonly Sent[]): Promise<readonly StoredId[]> {
    return this.outbox.publish(
      transaction.tx,
      sent.map((each) => this.message(each)),
    )
  }

  /** Sends in a new transaction. */
  send(sent: Sent): Promise<StoredId> {
    return this.#transact((transaction) => this.sendIn(transaction, sent))
  }

  sendAll(sent: readonly Sent[]): Promise<readonly StoredId[]> {
    return this.#transact((transaction) => this.sendAllIn(transaction, sent))
  }

  /** Sends again as long as the database reports conflicts. */
  async sendUntilSettled(sent: Sent): Promise<StoredId> {
    const [outcome] = await this.sendAllUntilSettled([sent])
    return outcome!
  }

  async sendAllUntilSettled(sent: readonly Sent[]): Promise<readonly StoredId[]> {
    for (;;) {
      try {
        return await this.#transact((transaction) =>
          sent.length === 1
            ? this.sendIn(transaction, sent[0]!).then((one) => [one])
            : this.sendAllIn(transaction, sent),
        )
      } catch (error) {
        if (!(error instanceof TransactionConflictError)) throw error
        this.conflicts += 1
      }
    }
  }

  /** The committed history of the topic, without the topic: `["id"]`, or `["key","id"]`. */
  async remembered(): Promise<string[]> {
    return (await this.claims()).map(({ key }) => JSON.stringify((JSON.parse(key) as string[]).slice(1)))
  }

  async claims(): Promise<readonly ClaimRow[]> {
    const all = await this.#target.claims('@publish')
    return all.filter(({ key }) => key.startsWith(`["${this.topic}"`))
  }

  async #transact<R>(work: (transaction: OpenTransaction) => Promise<R>): Promise<R> {
    const transaction = await this.#root.begin()
    let result: R
    try {
      result = await work(transaction)
    } catch (error) {
      await transaction.rollback()
      throw error
    }
    await transaction.commit()
    return result
  }
}
