/*
 * PostgreSQL settles many messages with one statement that returns those it found; MySQL and MariaDB first read and
 * lock the messages.
 */
import type {
  Giveback,
  QueueReceipt,
  QueueStore,
  ReceiveRequest,
  ReceivedMessage,
  Session,
} from '@txbox/core'
import {
  ALL_SHARDS,
  NOT_ASCII,
  byOrder,
  escapeCharacters,
  withStorableTexts,
  type Source,
  type SqlResult,
} from '@txbox/sql'
import { UNTRANSLATABLE, hasCode } from './errors.ts'
import { columns } from './columns.ts'
import { textArray } from './integer-arrays.ts'
import type { QueueAttempts } from './queue-attempts.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import type { queueStatements } from './queue-statements.ts'
import { runAtReadCommitted } from './run-alone.ts'
import { execute, write } from './session.ts'

const SETTLING = 'settling messages of a queue'

/** The stored queues of PostgreSQL, for receivers. {@link QueueStore} documents the methods. */
export class PostgresQueueStore implements QueueStore {
  readonly #sql: ReturnType<typeof queueStatements>
  readonly #receiver: QueueReceiver
  readonly #attempts: QueueAttempts
  readonly #source: Source

  constructor(
    statements: ReturnType<typeof queueStatements>,
    receiver: QueueReceiver,
    attempts: QueueAttempts,
    source: Source,
  ) {
    this.#sql = statements
    this.#attempts = attempts
    this.#receiver = receiver
    this.#source = source
  }

  receive(request: ReceiveRequest): Promise<readonly ReceivedMessage[]> {
    const { attempt } = request
    if (attempt !== undefined) return this.#attempts.receive(request, attempt)
    const receiver = this.#receiver
    return receiver.receive(request, (search) => receiver.visitEach(search))
  }

  async settle(session: Session | undefined, receipts: readonly QueueReceipt[]): Promise<readonly boolean[]> {
    const { ordered, unordered } = byOrder(receipts)
    const settled = new Set([
      ...(await this.#settle(session, ordered, this.#sql.settle, this.#sql.settleBatch)),
      ...(await this.#settle(session, unordered, this.#sql.settleUnordered, this.#sql.settleUnorderedBatch)),
    ])
    return receipts.map(({ place }) => settled.has(place))
  }

  /** @returns the places of the messages whose receipts were valid. */
  async #settle(
    session: Session | undefined,
    receipts: readonly QueueReceipt[],
    one: string,
    batch: string,
  ): Promise<readonly bigint[]> {
    const [only, ...more] = receipts
    if (only === undefined) return []
    if (session !== undefined && more.length === 0) {
      const affected = await write(session, SETTLING, one, [String(only.place), only.receipt])
      return affected > 0 ? [only.place] : []
    }
    const values = arraysOf(receipts)
    const { rows } =
      session === undefined ? await this.#run(batch, values) : await execute(session, SETTLING, batch, values)
    return rows.map((row) => BigInt(row['place'] as string))
  }

  async extend(receipts: readonly QueueReceipt[], visibilityTimeoutMs: number): Promise<readonly boolean[]> {
    if (receipts.length === 0) return []
    const { rows } = await this.#run(this.#sql.extend, [...arraysOf(receipts), visibilityTimeoutMs])
    const extended = new Set(rows.map((row) => BigInt(row['place'] as string)))
    return receipts.map(({ place }) => extended.has(place))
  }

  async renew(
    session: Session | undefined,
    { place, receipt }: QueueReceipt,
    visibilityTimeoutMs: number,
  ): Promise<boolean> {
    const values = [String(place), receipt, visibilityTimeoutMs]
    const { renew } = this.#sql
    const { rows } = await (session === undefined
      ? this.#run(renew, values)
      : execute(session, SETTLING, renew, values))
    return rows.length > 0
  }

  async giveBack({ place, receipt }: QueueReceipt, { delayMs, error, counted }: Giveback): Promise<boolean> {
    const { rows } = await this.#runWithTexts(this.#sql.giveBack, (ascii) => [
      ...[String(place), receipt, delayMs],
      error === undefined ? null : storable(error, ascii),
      counted ? 0 : 1,
    ])
    return rows.length > 0
  }

  async bury(_queue: string, { place, receipt }: QueueReceipt, error: string): Promise<boolean> {
    const { rows } = await this.#runWithTexts(this.#sql.bury, (ascii) => [
      ...[String(place), receipt],
      storable(error, ascii),
    ])
    return rows.length > 0
  }

  async purge(queue: string, limit: number): Promise<{ removed: number; more: boolean }> {
    let [removed, deleted] = [0, 0]
    for (const shard of ALL_SHARDS) {
      const gone = await this.#purgeShard(queue, shard, limit - deleted)
      removed += gone.removed
      deleted += gone.deleted
      if (deleted >= limit) return { removed, more: true }
    }
    const { rows } = await this.#run(this.#sql.forget, [`@queue/${queue}`, limit])
    return { removed, more: rows.length >= limit }
  }

  /** Purges while holding the lock of the shard, so that the keys of the removed messages can be released. */
  #purgeShard(queue: string, shard: number, limit: number): Promise<{ removed: number; deleted: number }> {
    return this.#receiver.transaction(async (transaction) => {
      const shards = await this.#receiver.lock(transaction, queue, shard)
      let [removed, deleted] = [0, 0]
      for (const text of [this.#sql.purgeWaiting, this.#sql.purge]) {
        const [row] = (await transaction.query(text, [queue, shard, limit - deleted])).rows
        removed += columns.number(row, 'removed')
        deleted += columns.number(row, 'deleted')
        const keys = JSON.parse(columns.text(row, 'keys')) as string[]
        await shards.release(shard, keys)
      }
      return { removed, deleted }
    })
  }

  /** The store has no connection of its own: every statement runs on a connection of the root. */
  async close(): Promise<void> {}

  #run(text: string, values: readonly unknown[]): Promise<SqlResult> {
    return runAtReadCommitted(this.#source, SETTLING, text, values)
  }

  /** Runs a statement with texts that the database may be unable to store unchanged. */
  #runWithTexts(text: string, valuesWith: (ascii: boolean) => readonly unknown[]): Promise<SqlResult> {
    return withStorableTexts(
      (ascii) => this.#run(text, valuesWith(ascii)),
      (error) => hasCode(error, UNTRANSLATABLE),
    )
  }
}

/** Escapes NUL, which PostgreSQL cannot store in text, and if necessary all characters outside ASCII. */
function storable(error: string, ascii: boolean): string {
  return escapeCharacters(error, ascii ? NOT_ASCII : /\0/g)
}

function arraysOf(receipts: readonly QueueReceipt[]): [places: string, receipts: readonly string[]] {
  return [textArray(receipts.map(({ place }) => place)), receipts.map(({ receipt }) => receipt)]
}
