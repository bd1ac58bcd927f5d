import { randomUUID } from 'node:crypto'
import {
  createInbox,
  type Inbox,
  type InboxHandler,
  type InboxOptions,
  type InboxOutcome,
} from '@txbox/inbox'
import {
  TransactionConflictError,
  type AnyMessage,
  type ConnectedDatabase,
  type TransactionHandle,
} from '@txbox/core'
import type { Root, Target } from '../engines/target.ts'

export type Message = AnyMessage
export type Handler<R = unknown> = InboxHandler<TransactionHandle, AnyMessage, R>

/** The two ways to deliver a message: in the caller's transaction, and in a transaction that the inbox opens. */
export const WAYS = ['process', 'run'] as const
export type Way = (typeof WAYS)[number]

/** An inbox with its own consumer, so that tests do not see each other's claims and effects. */
export class InboxUnderTest {
  readonly consumer: string
  readonly inbox: Inbox<TransactionHandle>
  readonly #target: Target
  readonly #root: Root
  /** The number of calls of `handle`, rolled back transactions included. */
  calls = 0

  constructor(target: Target, root: Root, options: Partial<InboxOptions<Message>> = {}) {
    this.#target = target
    this.#root = root
    this.consumer = options.consumer ?? `consumer-${randomUUID()}`
    const database: ConnectedDatabase<TransactionHandle> = root.database
    this.inbox = createInbox<TransactionHandle>({ ...options, database, consumer: this.consumer })
  }

  /** A handler that writes one effect. @returns 'handled' */
  readonly handle: Handler<string> = async (tx) => {
    this.calls += 1
    await this.#target.effect(tx, this.consumer)
    return 'handled'
  }

  deliver<R = string>(
    way: Way,
    message: Message,
    fn: Handler<R> = this.handle as unknown as Handler<R>,
  ): Promise<InboxOutcome<R>> {
    return way === 'process' ? this.process(message, fn) : this.inbox.run(message, fn)
  }

  /** Processes a message as a consumer does: begin, process, commit; roll back after any error. */
  async process<R = string>(
    message: Message,
    fn: Handler<R> = this.handle as unknown as Handler<R>,
  ): Promise<InboxOutcome<R>> {
    const transaction = await this.#root.begin()
    let outcome: InboxOutcome<R>
    try {
      outcome = await this.inbox.process(transaction.tx, message, fn)
    } catch (error) {
      await transaction.rollback()
      throw error
    }
    await transaction.commit()
    return outcome
  }

  /** Like `process`, but redelivers as long as the database reports conflicts, which `conflicts` counts. */
  async processUntilSettled<R = string>(message: Message, fn?: Handler<R>): Promise<InboxOutcome<R>> {
    for (;;) {
      try {
        return await this.process(message, fn)
      } catch (error) {
        if (!(error instanceof TransactionConflictError)) throw error
        this.conflicts += 1
      }
    }
  }
  conflicts = 0

  /** Committed effects of `handle`. */
  effects(): Promise<number> {
    return this.#target.effects(this.consumer)
  }

  /** Keys of the committed claims. */
  async claimedKeys(): Promise<string[]> {
    return (await this.#target.claims(this.consumer)).map((claim) => claim.key)
  }
}
