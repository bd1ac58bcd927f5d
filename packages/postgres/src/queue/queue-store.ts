/*
 * PostgreSQL settles many messages with one statement that returns those it found; MySQL and MariaDB first read and
 * lock the messages.
 */
import type { Session } from '@txbox/core'
import type { Giveback, QueueReceipt, QueueStore, ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import { NOT_ASCII, byOrder, escapeCharacters, withStorableTexts } from '@txbox/sql/stores'
import type { StatementRoot, SqlResult } from '@txbox/sql/transactions'
import { UNTRANSLATABLE, hasCode } from '../connection/errors.ts'
import { columns } from '../connection/columns.ts'
import { textArray } from '../connection/integer-arrays.ts'
import { QueueAttempts } from './queue-attempts.ts'
import { QUEUE_SHARDS, QueueReceiver } from './queue-receiver.ts'
import { queueStatements } from './queue-statements.ts'
import { runAtReadCommitted, runTogether } from '../connection/run-alone.ts'
import { execute, write } from '../connection/session.ts'

const SETTLING = 'settling messages of a queue'

/** Messages that one statement settles. */
interface ReceiptSettlement {
  readonly receipts: readonly QueueReceipt[]
  readonly text: string
}

export class PostgresQueueStore implements QueueStore {
  readonly #sql: ReturnType<typeof queueStatements>
  /** For receives without an attempt, which have a time limit of their own. */
  readonly #plainReceiver: QueueReceiver
  readonly #receiver: QueueReceiver
  readonly #attempts: QueueAttempts
  readonly #source: StatementRoot

  /** @param plainSource has the time limit of receives without an attempt. */
  constructor(schema: string, source: StatementRoot, plainSource: StatementRoot) {
    this.#sql = queueStatements(schema)
    this.#source = source
    this.#plainReceiver = new QueueReceiver(schema, plainSource)
    this.#receiver = new QueueReceiver(schema, source)
    this.#attempts = new QueueAttempts(schema, this.#receiver)
  }

  receive(request: ReceiveRequest): Promise<readonly QueueMessage[]> {
    const { attempt } = request
    if (attempt !== undefined) return this.#attempts.receive(request, attempt)
    return this.#plainReceiver.receiveAlone(request)
  }

  async settle(session: Session | undefined, receipts: readonly QueueReceipt[]): Promise<readonly boolean[]> {
    const [only] = receipts
    if (session !== undefined && only !== undefined && receipts.length === 1) {
      return [await this.#settleOne(session, only)]
    }
    const { ordered, unordered } = byOrder(receipts)
    const { settleBatch, settleUnorderedBatch } = this.#sql
    const parts: readonly ReceiptSettlement[] = [
      ...ofDifferentMessages(ordered).map((some) => ({ receipts: some, text: settleBatch })),
      ...ofDifferentMessages(unordered).map((some) => ({ receipts: some, text: settleUnorderedBatch })),
    ]
    const settled = new Set(
      session === undefined ? await this.#settleAlone(parts) : await this.#settleIn(session, parts),
    )
    return receipts.map((receipt) => settled.has(receipt))
  }

  /** Settles one message in the caller's transaction, as a consumer does for each message. */
  async #settleOne(session: Session, receipt: QueueReceipt): Promise<boolean> {
    const text = receipt.ordered ? this.#sql.settle : this.#sql.settleUnordered
    return (await write(session, SETTLING, text, valuesOf(receipt))) > 0
  }

  /** Settles in one transaction. @returns the receipts that were valid. */
  async #settleAlone(parts: readonly ReceiptSettlement[]): Promise<readonly QueueReceipt[]> {
    const [only, ...more] = parts
    if (only === undefined) return []
    const statements = parts.map(({ text, receipts }) => ({ text, values: arraysOf(receipts) }))
    const results =
      more.length === 0
        ? [await this.#run(only.text, arraysOf(only.receipts))]
        : await runTogether(this.#source, SETTLING, ({ commitWith }) => commitWith(statements))
    return parts.flatMap(({ receipts }, n) => foundBy(receipts, results[n]!))
  }

  /** Settles in the caller's transaction. @returns the receipts that were valid. */
  async #settleIn(session: Session, parts: readonly ReceiptSettlement[]): Promise<readonly QueueReceipt[]> {
    const settled: QueueReceipt[] = []
    for (const { text, receipts } of parts) {
      settled.push(...foundBy(receipts, await execute(session, SETTLING, text, arraysOf(receipts))))
    }
    return settled
  }

  async extend(receipts: readonly QueueReceipt[], visibilityTimeoutMs: number): Promise<readonly boolean[]> {
    const extended = new Set<QueueReceipt>()
    for (const some of ofDifferentMessages(receipts)) {
      const result = await this.#run(this.#sql.extend, [...arraysOf(some), visibilityTimeoutMs])
      for (const receipt of foundBy(some, result)) extended.add(receipt)
    }
    return receipts.map((receipt) => extended.has(receipt))
  }

  async renew(
    session: Session | undefined,
    receipt: QueueReceipt,
    visibilityTimeoutMs: number,
  ): Promise<boolean> {
    const values = [...valuesOf(receipt), visibilityTimeoutMs]
    const { renew } = this.#sql
    const { rows } = await (session === undefined
      ? this.#run(renew, values)
      : execute(session, SETTLING, renew, values))
    return rows.length > 0
  }

  async giveBack(receipt: QueueReceipt, { delayMs, error, counted }: Giveback): Promise<boolean> {
    const { rows } = await this.#runWithTexts(this.#sql.giveBack, (ascii) => [
      ...[...valuesOf(receipt), delayMs],
      error === undefined ? null : storable(error, ascii),
      counted ? 0 : 1,
    ])
    return rows.length > 0
  }

  async bury(_queue: string, receipt: QueueReceipt, error: string): Promise<boolean> {
    const { rows } = await this.#runWithTexts(this.#sql.bury, (ascii) => [
      ...valuesOf(receipt),
      storable(error, ascii),
    ])
    return rows.length > 0
  }

  async purge(queue: string, limit: number): Promise<{ removed: number; more: boolean }> {
    let [removed, deleted] = [0, 0]
    for (const shard of QUEUE_SHARDS) {
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

/**
 * Groups the receipts so that no group has two of one message: the statements return the places of messages, which does
 * not say which of two receipts was valid.
 */
function ofDifferentMessages(receipts: readonly QueueReceipt[]): readonly (readonly QueueReceipt[])[] {
  const groups: { readonly places: Set<bigint>; readonly receipts: QueueReceipt[] }[] = []
  for (const receipt of receipts) {
    const { place } = receipt
    let group = groups.find(({ places }) => !places.has(place))
    if (group === undefined) groups.push((group = { places: new Set(), receipts: [] }))
    group.places.add(place)
    group.receipts.push(receipt)
  }
  return groups.map((group) => group.receipts)
}

/** @returns the receipts whose places a statement has returned. */
function foundBy(receipts: readonly QueueReceipt[], { rows }: SqlResult): readonly QueueReceipt[] {
  const places = new Set(rows.map((row) => BigInt(row['place'] as string)))
  return receipts.filter(({ place }) => places.has(place))
}

/** Escapes NUL, which PostgreSQL cannot store in text, and if necessary all characters outside ASCII. */
function storable(error: string, ascii: boolean): string {
  return escapeCharacters(error, ascii ? NOT_ASCII : /\0/g)
}

function valuesOf({ topic, place, receipt }: QueueReceipt): [queue: string, place: string, receipt: string] {
  return [topic, String(place), receipt]
}

/** @param receipts at least one. */
function arraysOf(receipts: readonly QueueReceipt[]): [queue: string, places: string, receipts: string] {
  return [
    receipts[0]!.topic,
    textArray(receipts.map(({ place }) => place)),
    textArray(receipts.map(({ receipt }) => receipt)),
  ]
}
