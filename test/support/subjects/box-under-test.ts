import { randomUUID } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { createTxbox, type Txbox, type TxboxMessage } from 'txbox'
import type { ConsumerContext } from '@txbox/consumer'
import type { TransactionHandle } from '@txbox/core'
import { LocalRows } from './local-rows.ts'
import type { LocalMessage } from './local-parts.ts'
import type { Root, Target } from '../engines/target.ts'
import { until } from '../worlds/until.ts'

export type BoxHandler = (tx: TransactionHandle, message: LocalMessage, context: ConsumerContext) => unknown
type Consumers = Readonly<Record<string, Readonly<Record<string, BoxHandler | object>>>>

/** A service with a box, whose consumers and types have names of their own, so that tests do not see each other's messages. */
export class BoxUnderTest extends LocalRows {
  readonly #root: Pick<Root, 'database'>
  readonly #types = randomUUID().slice(0, 8)
  /** What each handler was called with. */
  readonly runs: { readonly consumer: string; readonly message: LocalMessage }[] = []

  constructor(target: Target, root: Pick<Root, 'database'>) {
    super(target)
    this.#root = root
  }

  type(type: string): string {
    return `${type}-${this.#types}`
  }

  /** Creates a box without a collector, which is stopped at the end of the test. Each handler has its effect first. */
  create(
    consumers: Consumers = {},
    options: object = {},
    { database } = this.#root,
  ): Txbox<TransactionHandle> {
    const entries = Object.entries(consumers).map(([consumer, handlers]) => [
      this.name(consumer),
      {
        handlers: this.handlers(consumer, handlers),
        concurrency: 4,
        retry: { attempts: 10, delayMs: () => 10 },
        pollIntervalMs: { min: 5, max: 20 },
        // A renewal that a busy machine delays must not cost a lease.
        leaseMs: 15_000,
      },
    ])
    return this.created({
      database,
      consumers: Object.fromEntries(entries) as object,
      gc: false,
      logger: false,
      ...options,
    })
  }

  created(options: object): Txbox<TransactionHandle> {
    const box: Txbox<TransactionHandle> = createTxbox({ database: this.#root.database, ...options })
    onTestFinished(() => box.stop({ timeoutMs: 500 }))
    return box
  }

  async start(...args: Parameters<BoxUnderTest['create']>): Promise<Txbox<TransactionHandle>> {
    const box = this.create(...args)
    await box.start()
    return box
  }

  /** Handlers by type, whose effect is a row. A handler that is marked is passed as it is. */
  handlers(consumer: string, handlers: Readonly<Record<string, BoxHandler | object>>): object {
    return Object.fromEntries(
      Object.entries(handlers).map(([type, handler]) => [
        this.type(type),
        typeof handler === 'function'
          ? async (tx: TransactionHandle, message: LocalMessage, context: ConsumerContext) => {
              this.runs.push({ consumer, message })
              await this.target.effect(tx, this.effectOf(consumer, message.id))
              return (handler as BoxHandler)(tx, message, context)
            }
          : handler,
      ]),
    )
  }

  /** A message to publish. */
  message(type: string, fields: object = {}): TxboxMessage {
    return { type: this.type(type), payload: {}, ...fields }
  }

  /** Resolves when a consumer has had so many effects. */
  async hasEffects(count: number, consumer = 'billing', limitMs?: number): Promise<void> {
    await until(
      async () => (await this.effectsInOrder(consumer)).length >= count,
      async () => `${count} effects; there are ${(await this.effectsInOrder(consumer)).length}`,
      limitMs,
    )
  }
}
