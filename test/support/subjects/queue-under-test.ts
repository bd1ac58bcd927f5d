import { randomUUID } from 'node:crypto'
import type { ConnectedDatabase, StoredId, TransactionHandle } from '@txbox/core'
import {
  createQueue,
  type NewQueueMessage,
  type Queue,
  type QueueOptions,
  type ReceiveOptions,
  type Received,
} from '@txbox/queue'
import type { OpenTransaction, Root, Row, Target } from '../engines/target.ts'

/** A message whose payload is of no interest to the test. */
export type Sent = Partial<NewQueueMessage>
type Handle = TransactionHandle

/** A queue with a name of its own, so that tests do not see each other's messages. */
export class QueueUnderTest {
  readonly queue: Queue<Handle>
  readonly table: string
  readonly #target: Target
  readonly #root: Pick<Root, 'begin'>

  constructor(
    target: Target,
    root: Pick<Root, 'begin'> & { readonly database: ConnectedDatabase<Handle> },
    options: Partial<QueueOptions> = {},
  ) {
    this.#target = target
    this.#root = root
    this.table = target.outboxTable.replace(/outbox$/, 'queue')
    this.queue = createQueue({ database: root.database, name: `queue-${randomUUID()}`, ...options })
  }

  /** Another object of the same queue, as another process has it. */
  twin(
    root: { readonly database: ConnectedDatabase<Handle> },
    options: Partial<QueueOptions> = {},
  ): Queue<Handle> {
    return createQueue({ database: root.database, name: this.queue.name, ...options })
  }

  /** Sends in a transaction that the caller ends. */
  sendIn({ tx }: Pick<OpenTransaction, 'tx'>, sent: Sent): Promise<StoredId> {
    return this.queue.send(tx, { payload: {}, ...sent })
  }

  /** Sends each message by a separate call, all in one transaction. @returns their ids */
  async send(...messages: readonly Sent[]): Promise<string[]> {
    const transaction = await this.#root.begin()
    const ids: string[] = []
    try {
      for (const sent of messages) ids.push((await this.sendIn(transaction, sent)).id)
    } catch (error) {
      await transaction.rollback()
      throw error
    }
    await transaction.commit()
    return ids
  }

  /** Sends many messages by one call. @returns their ids */
  async sendTogether(messages: readonly Sent[]): Promise<string[]> {
    const transaction = await this.#root.begin()
    const stored = await this.queue.send(
      transaction.tx,
      messages.map((sent) => ({ payload: {}, ...sent })),
    )
    await transaction.commit()
    return stored.map(({ id }) => id)
  }

  receive(options: ReceiveOptions = {}): Promise<readonly Received[]> {
    return this.queue.receive(options)
  }

  /** Receives one message. */
  async receiveOne(options: ReceiveOptions = {}): Promise<Received> {
    const [received, ...others] = await this.receive({ limit: 1, ...options })
    if (received === undefined || others.length > 0) throw new Error('Not exactly one message was received.')
    return received
  }

  /** The ids of the messages that can be received now, in the order in which they are received; they are deleted. */
  async drain(): Promise<string[]> {
    const ids: string[] = []
    for (;;) {
      const received = await this.receive({ limit: 1000 })
      if (received.length === 0) return ids
      for (const each of received) {
        ids.push(each.message.id)
        await this.queue.delete(each)
      }
    }
  }

  /** Lets the visibility timeout of all received messages be over, as if it had passed. */
  async expire(): Promise<void> {
    const earlier =
      this.#target.engine === 'postgres'
        ? "clock_timestamp() - interval '1 second'"
        : 'utc_timestamp(6) - interval 1 second'
    await this.sql(`update ${this.table} set due_at = ${earlier} where topic = ? and receipt is not null`)
  }

  /** The rows of the queue that are messages: those that are handled, and wait to be swept, do not count. */
  async size(more = ''): Promise<number> {
    const epoch =
      this.#target.engine === 'postgres' ? "timestamptz 'epoch'" : "timestamp '1970-01-01 00:00:00'"
    const [row] = await this.sql(
      `select count(*) as n from ${this.table} where topic = ? and dead_at is null and (due_at is null or due_at > ${epoch}) ${more}`,
    )
    return Number(row?.['n'])
  }

  /** The messages that are not in flight. */
  visible(): Promise<number> {
    const now = this.#target.engine === 'postgres' ? 'clock_timestamp()' : 'utc_timestamp(6)'
    return this.size(`and (receipt is null or due_at <= ${now})`)
  }

  /** SQL whose only parameter is the name of the queue. */
  sql(text: string): Promise<readonly Row[]> {
    const { name } = this.queue
    return this.#target.sql(text, [this.#target.engine === 'postgres' ? name : Buffer.from(name)])
  }
}

/** The ids of received messages. */
export function idsOf(received: readonly Received[]): string[] {
  return received.map(({ message }) => message.id)
}

/** The ids in one order, for messages that have none. */
export function sortedIds(ids: readonly (string | undefined)[]): string[] {
  return ids.map(String).toSorted()
}
