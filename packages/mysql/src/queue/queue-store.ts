/*
 * MySQL and MariaDB change messages in short transactions of several statements, and count the changed rows. PostgreSQL
 * changes messages with one statement, which returns the changed rows.
 */
import { NotInTransactionError, type Session } from '@txbox/core'
import type { Giveback, QueueReceipt, QueueStore, ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import { byOrder, withStorableTexts, type Row } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns, placeOf } from '../connection/columns.ts'
import { hasNumber, UNTRANSLATABLE } from '../connection/errors.ts'
import { bytesOf, json, microseconds } from '../connection/literals.ts'
import { QueueAttempts } from './queue-attempts.ts'
import { QueuePurge } from './queue-purge.ts'
import { QueueReceiver } from './queue-receiver.ts'
import { lockRows, pairsOf, uuidBytes } from './queue-rows.ts'
import { queueStatements } from './queue-statements.ts'
import { MAX_ERROR_BYTES, storable } from '../relay/relay-verdicts.ts'
import { runBounded, runTogether, type MysqlStatementRoot } from '../connection/run-alone.ts'
import { assertInTransaction, execute } from '../connection/session.ts'
import type { Run } from '../connection/short-transaction.ts'

const SETTLING = 'settling messages of a queue'

type Statements = ReturnType<typeof queueStatements>

/** The queues of MySQL and MariaDB. {@link QueueStore} documents the methods. */
export class MysqlQueueStore implements QueueStore {
  readonly #sql: Statements
  readonly #source: MysqlStatementRoot
  /** For receives without an attempt, which have a time limit of their own. */
  readonly #plainReceiver: QueueReceiver
  readonly #receiver: QueueReceiver
  readonly #attempts: QueueAttempts
  readonly #purge: QueuePurge

  constructor(tables: Tables, source: MysqlStatementRoot, plainSource: MysqlStatementRoot) {
    this.#sql = queueStatements(tables)
    this.#source = source
    this.#plainReceiver = new QueueReceiver(tables, plainSource)
    this.#receiver = new QueueReceiver(tables, source)
    this.#attempts = new QueueAttempts(tables, this.#receiver)
    this.#purge = new QueuePurge(tables, source, this.#receiver)
  }

  receive(request: ReceiveRequest): Promise<readonly QueueMessage[]> {
    const { attempt } = request
    if (attempt !== undefined) return this.#attempts.receive(request, attempt)
    const receiver = this.#plainReceiver
    return receiver.receive(request, (...search) => receiver.visitEach(...search))
  }

  async settle(session: Session | undefined, receipts: readonly QueueReceipt[]): Promise<readonly boolean[]> {
    if (receipts.length === 0) return []
    const { ordered, unordered } = byOrder(receipts)
    const settleAll = async (run: Run): Promise<ReadonlySet<QueueReceipt>> =>
      new Set([
        ...(await this.#settle(run, ordered, this.#sql.settle, this.#sql.settleHeld)),
        ...(await this.#settle(run, unordered, this.#sql.settleUnordered, this.#sql.settleHeldUnordered)),
      ])
    if (session !== undefined) await assertInTransaction(session)
    const settled = await (session !== undefined
      ? settleAll(inSession(session))
      : receipts.length === 1
        ? settleAll((text, values) => runBounded(this.#source, SETTLING, text, values))
        : runTogether(this.#source, SETTLING, settleAll))
    return receipts.map((receipt) => settled.has(receipt))
  }

  async extend(receipts: readonly QueueReceipt[], visibilityTimeoutMs: number): Promise<readonly boolean[]> {
    if (receipts.length === 0) return []
    const extended = await runTogether(this.#source, 'extending visibility timeouts', async (run) => {
      const sql = await this.#receiver.sql()
      const asked = receipts.map(({ place }) => String(place))
      const rows = await lockRows(run, sql, asked)
      const queue = receipts[0]!.topic
      const live = named(
        rows.filter((row) => columns.flag(row, 'live') && columns.text(row, 'topic') === queue),
      )
      const valid = receipts.filter((receipt) => live.has(nameOf(receipt)))
      const places = valid.map(({ place }) => place)
      if (places.length > 0 && visibilityTimeoutMs === 0) await run(this.#sql.giveUp, [places])
      else if (places.length > 0) {
        await run(sql.extend, [json(places.map(String)), microseconds(visibilityTimeoutMs)])
      }
      const locked = new Set(rows.map(placeOf))
      const others = receipts.filter(({ place }) => !locked.has(String(place)))
      return new Set([...valid, ...(await this.#locked(run, others))])
    })
    return receipts.map((receipt) => extended.has(receipt))
  }

  async renew(
    session: Session | undefined,
    { topic, place, receipt }: QueueReceipt,
    visibilityTimeoutMs: number,
  ): Promise<boolean> {
    if (session !== undefined) await assertInTransaction(session)
    const run: Run =
      session !== undefined
        ? inSession(session)
        : (text, values) => runBounded(this.#source, SETTLING, text, values)
    const values = [microseconds(visibilityTimeoutMs), place, uuidBytes(receipt), { utf8: topic }]
    return (await run(this.#sql.renew, values)).affected > 0
  }

  async giveBack({ topic, place, receipt }: QueueReceipt, giveback: Giveback): Promise<boolean> {
    const { delayMs, error, counted } = giveback
    const { affected } = await this.#withStorableText((text) =>
      runBounded(this.#source, SETTLING, this.#sql.giveBack, [
        microseconds(delayMs),
        error === undefined ? null : text(error),
        counted ? 0 : 1,
        place,
        uuidBytes(receipt),
        { utf8: topic },
      ]),
    )
    return affected > 0
  }

  async bury(_queue: string, receipt: QueueReceipt, error: string): Promise<boolean> {
    const { pairs, places, queue } = pairsOf(this.#sql.pair, [receipt])
    return this.#withStorableText((text) =>
      runTogether(this.#source, SETTLING, async (run) => {
        const [row] = (await run(this.#sql.holdValid(pairs), [places, queue])).rows
        if (row === undefined) return false
        await run(this.#sql.bury, [text(error), receipt.place])
        if (row['order_key'] !== null) {
          const of = [bytesOf(row['topic']), columns.number(row, 'shard'), bytesOf(row['order_key'])]
          // This row replaces the message in its key.
          await run((await this.#receiver.sql()).free, of)
        }
        return true
      }),
    )
  }

  purge(queue: string, limit: number): Promise<{ readonly removed: number; readonly more: boolean }> {
    return this.#purge.purge(queue, limit)
  }

  /** @returns the receipts that were valid. */
  async #settle(
    run: Run,
    receipts: readonly QueueReceipt[],
    one: (pairs: readonly string[]) => string,
    held: (pairs: readonly string[]) => string,
  ): Promise<readonly QueueReceipt[]> {
    if (receipts.length === 0) return []
    const { pair, holdValid } = this.#sql
    const { pairs, places, queue } = pairsOf(pair, receipts)
    if (receipts.length === 1) return (await run(one(pairs), [places, queue])).affected > 0 ? receipts : []
    // A single statement would return only the number of settled messages, not which receipts were valid. Which
    // receipts are valid is therefore decided by `holdValid`: by the time of the next statement, the visibility timeout
    // of a message may be over.
    const { rows } = await run(holdValid(pairs), [places, queue])
    const isOrdered = receipts[0]!.ordered
    const locked = named(rows.filter((row) => (row['order_key'] !== null) === isOrdered))
    const valid = receipts.filter((receipt) => locked.has(nameOf(receipt)))
    if (valid.length === 0) return []
    const found = pairsOf(pair, valid)
    const { affected } = await run(held(found.pairs), [found.places, queue])
    if (affected !== new Set(found.places).size) {
      throw new Error(
        `Only ${affected} of ${valid.length} messages were settled that this transaction has locked.`,
      )
    }
    return valid
  }

  /**
   * Returns the receipts that are valid although their messages could not be locked. Another transaction of the receipt's
   * holder has locked such a message, because a receiver locks only messages whose timeout is over.
   */
  async #locked(run: Run, receipts: readonly QueueReceipt[]): Promise<readonly QueueReceipt[]> {
    if (receipts.length === 0) return []
    const { pairs, places, queue } = pairsOf(this.#sql.pair, receipts)
    const found = named((await run(this.#sql.find(pairs), [places, queue])).rows)
    return receipts.filter((receipt) => found.has(nameOf(receipt)))
  }

  /** Runs work with a function that converts an error to a form that the column can store. */
  async #withStorableText<R>(work: (text: (error: string) => string) => Promise<R>): Promise<R> {
    // Text has twice its size in hexadecimal, and escaped quotes need more space still.
    const mostBytes = Math.floor((await this.#source.server()).maxStatementBytes / 16)
    return withStorableTexts(
      (ascii) => work((error) => storable(error, ascii, Math.min(mostBytes, MAX_ERROR_BYTES))),
      (error) => hasNumber(error, UNTRANSLATABLE),
    )
  }
}

function inSession(session: Session): Run {
  return async (text, values) => {
    const result = await execute(session, SETTLING, text, values)
    if (result.inTransaction !== false || result.affected === 0) return result
    throw new NotInTransactionError(
      'The transaction ended while a message was being settled: await the call before the transaction commits. The message is ' +
        'settled.',
    )
  }
}

function nameOf({ place, receipt }: QueueReceipt): string {
  return `${place} ${uuidBytes(receipt).toString('hex')}`
}

/** Names the receipts of rows as `nameOf` does. */
function named(rows: readonly Row[]): ReadonlySet<string> {
  return new Set(rows.map((row) => `${placeOf(row)} ${columns.text(row, 'receipt').toLowerCase()}`))
}
