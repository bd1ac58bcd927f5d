import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach } from 'vitest'
import type { Pool } from 'mysql2/promise'
import type {
  ConnectedPorts,
  NewStoredMessage,
  QueueReceipt,
  QueueStore,
  ReceiveRequest,
  ReceivedMessage,
} from '@txbox/core'
import { connectedPortsOf, shardOf } from '@txbox/core/internal'
import { poolOf } from './mysql-pool.ts'
import { databaseUrl } from './server-outbox-target.ts'
import type { OpenTransaction, Root, Row, Target } from './target.ts'

/** A queue of MySQL or MariaDB, behind its ports. */
export class MysqlQueue {
  readonly name = 'orders'
  readonly #root: Root
  /** One connection, so that it can exclude itself. */
  #pool: Pool | undefined

  constructor(target: Target, root: Root) {
    this.#root = root
    beforeAll(async () => {
      this.#pool = poolOf(await databaseUrl(target), { connectionLimit: 1 }).promise()
    })
    beforeEach(async () => {
      await this.sql('delete from txbox_queue')
      await this.sql('delete from txbox_inbox')
    })
    afterAll(() => this.#pool?.end())
  }

  get ports(): ConnectedPorts {
    return connectedPortsOf('test', this.#root.database)
  }

  get store(): QueueStore {
    return this.ports.queue({ statementTimeoutMs: 10_000 })
  }

  /** Sends a message for each of these keys, in this order, and commits. The payload is the id. @returns the ids */
  async send(...keys: readonly (string | undefined)[]): Promise<readonly string[]> {
    const transaction = await this.#root.begin()
    const ids = await this.sendIn(transaction, ...keys)
    await transaction.commit()
    return ids
  }

  async sendIn(
    { tx }: OpenTransaction,
    ...keys: readonly (string | undefined)[]
  ): Promise<readonly string[]> {
    const messages = keys.map((key) => this.message(key))
    await this.ports.queueSender.send(await this.ports.bind(tx), messages)
    return messages.map(({ id }) => id)
  }

  message(key: string | undefined, more: Partial<NewStoredMessage> = {}): NewStoredMessage {
    const id = randomUUID()
    return {
      id,
      shard: shardOf(key),
      topic: this.name,
      key,
      type: undefined,
      contentType: 'text/plain',
      headers: {},
      correlationId: undefined,
      payload: Buffer.from(id),
      ...more,
    }
  }

  receive(request: Partial<ReceiveRequest> = {}): Promise<readonly ReceivedMessage[]> {
    return this.store.receive({
      queue: this.name,
      limit: 10,
      visibilityTimeoutMs: 60_000,
      maxReceives: 10,
      remove: false,
      attempt: undefined,
      ...request,
    })
  }

  /** Settles in a transaction that stays open. */
  async settleIn(transaction: OpenTransaction, ...receipts: QueueReceipt[]): Promise<readonly boolean[]> {
    return this.store.settle(await this.ports.bind(transaction.tx), receipts)
  }

  begin(): Promise<OpenTransaction> {
    return this.#root.begin()
  }

  /** Lets the visibility timeouts of messages in flight pass. */
  async expire(...messages: readonly QueueReceipt[]): Promise<void> {
    for (const { place } of messages) {
      await this.sql(
        'update txbox_queue set due_at = utc_timestamp(6) - interval 1 second where place = ? and receipt is not null',
        [String(place)],
      )
    }
  }

  rows(): Promise<readonly Row[]> {
    return this.sql(
      `select cast(q.place as char) as place, cast(id as char) as id, \`key\`, due_at, dead_at, receipt is not null as received,
         attempts, timeouts, error, length(payload) as bytes
       from txbox_queue as q order by q.place`,
    )
  }

  async sql(text: string, parameters: readonly unknown[] = []): Promise<readonly Row[]> {
    if (this.#pool === undefined) throw new Error('The connection is opened before the first test.')
    const [rows] = await this.#pool.query(text, [...parameters])
    return Array.isArray(rows) ? (rows as Row[]) : []
  }
}
