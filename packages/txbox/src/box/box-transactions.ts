import { InvalidOptionError, type ConnectedDatabase, type TransactOptions } from '@txbox/core'
import type { ConnectedPorts } from '@txbox/core/ports'
import { OptionChecker, attemptsOnConflict, causing, nameOf, type Cause } from '@txbox/core/internal'
import { wakeLocalConsumers } from '@txbox/consumer/internal'
import type { SubscribedOutbox } from '@txbox/outbox'
import type { Ambient } from './ambient.ts'

export type BoxTransactOptions = TransactOptions & { attempts?: number | undefined }

export interface TransactionTools {
  readonly ambient: Ambient
  readonly database: ConnectedDatabase<unknown>
  readonly send: SubscribedOutbox
}

/** What a transaction that handles no message adds to the messages that it stores. */
const NO_CAUSE: Cause = { correlationId: undefined, causationId: undefined }

/** The transactions of a box, and the messages that are published in them. `Txbox` documents the methods. */
export class BoxTransactions {
  readonly #ports: ConnectedPorts
  readonly #tools: TransactionTools

  constructor(ports: ConnectedPorts, tools: TransactionTools) {
    this.#ports = ports
    this.#tools = tools
  }

  async transact<R>(work: (tx: unknown) => Promise<R>, options: BoxTransactOptions = {}): Promise<R> {
    if (typeof work !== 'function') {
      throw new InvalidOptionError(
        `transact: expected a function that is called with the transaction, not ${nameOf(work)}. Nothing was written.`,
      )
    }
    const check = new OptionChecker('transact', options).known('isolation', 'signal', 'attempts')
    const attempts = check.integer('attempts', { min: 1, max: 100, default: 5 })
    const signal = check.signal('signal')
    const open = this.#tools.ambient.transaction
    if (open === undefined) return this.#inOwn(work, { isolation: options.isolation, signal }, attempts)
    signal?.throwIfAborted()
    if (options.isolation !== undefined) {
      throw check.wrong('isolation', 'absent inside another transaction of the box')
    }
    return work(open)
  }

  async publish(...args: readonly [unknown] | readonly [object, unknown]): Promise<unknown> {
    const { ambient, send } = this.#tools
    const [tx, message] = args.length === 1 ? [ambient.required('publish'), args[0]] : args
    return send.publish(tx as never, message as never)
  }

  /** Whichever outbox stores a message in the transaction, the local consumers of this process look for it after COMMIT. */
  async #inOwn<R>(work: (tx: unknown) => Promise<R>, how: TransactOptions, attempts: number): Promise<R> {
    const { ambient, database } = this.#tools
    let hasPublished = false
    const stored = (): void => void (hasPublished = true)
    const watched = (tx: unknown): Promise<R> =>
      ambient.inside(tx, () => causing(tx, { ...NO_CAUSE, stored }, () => work(tx)))
    const result = await attemptsOnConflict(() => database.transact(watched, how), this.#ports, {
      attempts,
      signal: how.signal,
    })
    if (hasPublished) wakeLocalConsumers(this.#ports)
    return result
  }
}
