/* MySQL and MariaDB report an existing claim as an error, and read messages again after extending them. */
import type { ReceiveAttempt, ReceiveRequest, ReceivedMessage } from '@txbox/core'
import {
  CLAIM_ROUNDS,
  answerOf,
  assertUnchanged,
  attemptClaim,
  isAnswerOver,
  storedAnswer,
  unsettledClaim,
  type AnsweredMessage,
  type Row,
} from '@txbox/sql'
import { columns } from './columns.ts'
import { DUPLICATE_KEY, numberOf } from './errors.ts'
import type { inboxStatementsByEngine } from './inbox-statements.ts'
import type { Utf8 } from './literals.ts'
import type { queueAttemptStatements } from './queue-attempt-statements.ts'
import type { Positions, QueueReceiver } from './queue-receiver.ts'
import { json, lockRows, microseconds, placeOf, readMessages } from './queue-rows.ts'
import type { Run } from './short-transaction.ts'

/** The consumer and the key of the claim that stores an answer. */
type AttemptClaim = readonly [consumer: Utf8, key: Utf8]

/** Repeatable receives: a claim in the inbox table stores the answer of each. */
export class QueueAttempts {
  readonly #sql: ReturnType<typeof queueAttemptStatements>
  readonly #claims: ReturnType<typeof inboxStatementsByEngine>['mysql']
  readonly #receiver: QueueReceiver

  /** @param claims the statements for either engine: both have the same text for the statements that are used here. */
  constructor(
    statements: ReturnType<typeof queueAttemptStatements>,
    claims: ReturnType<typeof inboxStatementsByEngine>['mysql'],
    receiver: QueueReceiver,
  ) {
    this.#sql = statements
    this.#claims = claims
    this.#receiver = receiver
  }

  /**
   * Claims the attempt and receives in one transaction, so that either both the claim and the receipts are stored, or
   * neither.
   */
  receive(request: ReceiveRequest, attempt: ReceiveAttempt): Promise<readonly ReceivedMessage[]> {
    const [consumer, key] = attemptClaim(request.queue, attempt.id)
    const claim: AttemptClaim = [{ utf8: consumer }, { utf8: key }]
    return this.#receiver.receive(request, async (search, positions, look) => {
      const { received, moved } = await this.#receiver.transaction(async (run) => {
        const repeated = await this.#repeated(run, claim, request, attempt)
        if (repeated !== undefined) return { received: repeated, moved: positions }
        // If the transaction is repeated after a conflict, the search must start from the same positions again.
        const from: Positions = new Map(positions)
        const messages = await this.#receiver.visitAll(search, from, look, (work) => work(run))
        if (messages.length === 0) await run(this.#claims.removeExpired, claim)
        else await this.#remember(run, claim, messages)
        return { received: messages, moved: from }
      })
      for (const shard of [...positions.keys()]) {
        const position = moved.get(shard)
        if (position === undefined) positions.delete(shard)
        else positions.set(shard, position)
      }
      return received
    })
  }

  /**
   * Claims the attempt. Waits for another transaction that is claiming the same attempt.
   *
   * @returns the messages of the earlier receive with this id; `undefined` if there was none, or its answer no longer
   *   counts.
   */
  async #repeated(
    run: Run,
    claim: AttemptClaim,
    { queue, visibilityTimeoutMs }: ReceiveRequest,
    { retentionMs }: ReceiveAttempt,
  ): Promise<readonly ReceivedMessage[] | undefined> {
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      // Read before the INSERT: a refused INSERT leaves a shared lock, and with it concurrent repetitions would
      // deadlock.
      const [found] = (await run(this.#sql.remembered, claim)).rows
      if (found !== undefined) {
        const answer = answerOf(columns.text(found, 'result'))
        const messages = await this.#recall(run, answer)
        const isLive = columns.flag(found, 'live')
        if (isLive && !isAnswerOver(answer, messages, columns.text(found, 'now_us'))) {
          assertUnchanged(queue, answer, messages)
          return this.#again(run, claim, answer, visibilityTimeoutMs)
        }
        await run(this.#claims.removeExpired, claim)
      }
      try {
        await run(this.#claims.claim, [...claim, null, microseconds(retentionMs)])
        return undefined
      } catch (error) {
        if (numberOf(error) !== DUPLICATE_KEY) throw error
      }
    }
    throw unsettledClaim(claim[0].utf8)
  }

  /** Restarts the visibility timeout of the messages. */
  async #again(
    run: Run,
    claim: AttemptClaim,
    answer: readonly AnsweredMessage[],
    visibilityTimeoutMs: number,
  ): Promise<readonly ReceivedMessage[]> {
    const sql = await this.#receiver.sql()
    const places = answer.map(({ place }) => place)
    await run(sql.extend, [json(places), microseconds(visibilityTimeoutMs)])
    const repeated: ReceivedMessage[] = []
    for (const { place, receipt } of answer) {
      repeated.push(...(await readMessages(run, sql, [place], receipt)))
    }
    await this.#remember(run, claim, repeated)
    return repeated
  }

  /** Reads the messages that still have a receipt, except those that another transaction has locked. */
  async #recall(
    run: Run,
    messages: readonly { readonly place: string }[],
  ): Promise<readonly AnsweredMessage[]> {
    const sql = await this.#receiver.sql()
    const rows = await lockRows(
      run,
      sql,
      messages.map(({ place }) => place),
    )
    return rows.filter((row) => row['receipt'] !== null).map(answeredOf)
  }

  async #remember(run: Run, claim: AttemptClaim, received: readonly ReceivedMessage[]): Promise<void> {
    const places = received.map(({ place }) => ({ place: String(place) }))
    const stored = new Map((await this.#recall(run, places)).map((message) => [message.place, message]))
    const answer = places.map(({ place }) => stored.get(place)!)
    await run(this.#claims.saveResult, [storedAnswer(answer), ...claim])
  }
}

function answeredOf(row: Row): AnsweredMessage {
  const hexadecimal = columns.text(row, 'receipt').toLowerCase()
  return {
    place: placeOf(row),
    receipt: hexadecimal.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-'),
    dueUs: columns.text(row, 'due_us'),
  }
}
