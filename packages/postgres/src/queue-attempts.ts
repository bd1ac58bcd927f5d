/* PostgreSQL extends and returns messages in one statement; MySQL and MariaDB extend them, and then read them again. */
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
import type { inboxStatements } from './inbox-statements.ts'
import { textArray } from './integer-arrays.ts'
import type { Query } from './own-transaction.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { receivedOf } from './queue-rows.ts'
import type { queueStatements } from './queue-statements.ts'

/** Repeatable receives: a claim in the inbox table stores the answer of each. */
export class QueueAttempts {
  readonly #sql: ReturnType<typeof queueStatements>
  readonly #claims: ReturnType<typeof inboxStatements>
  readonly #receiver: QueueReceiver

  constructor(
    statements: ReturnType<typeof queueStatements>,
    claims: ReturnType<typeof inboxStatements>,
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
    const claim = attemptClaim(request.queue, attempt.id)
    return this.#receiver.receive(request, (search) =>
      this.#receiver.transaction(async (transaction) => {
        const { query } = transaction
        const repeated = await this.#repeated(query, claim, request, attempt)
        if (repeated !== undefined) return { received: repeated, moved: false }
        const visit = await this.#receiver.visitWithin(transaction, search)
        if (visit.received.length === 0) await query(this.#claims.remove, claim)
        else await this.#remember(query, claim, visit.received)
        return visit
      }),
    )
  }

  /**
   * Claims the attempt. Waits for another transaction that is claiming the same attempt.
   *
   * @returns the messages of the earlier receive with this id; `undefined` if there was none, or its answer no longer
   *   counts.
   */
  async #repeated(
    query: Query,
    claim: readonly [consumer: string, key: string],
    { queue, visibilityTimeoutMs }: ReceiveRequest,
    { retentionMs }: ReceiveAttempt,
  ): Promise<readonly ReceivedMessage[] | undefined> {
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      const claimed = await query(this.#sql.claimAttempt, [...claim, retentionMs])
      if (claimed.rows.length > 0) return undefined
      const [found] = (await query(this.#sql.remembered, claim)).rows
      // After the claim was refused, the claim of the other receive disappeared: that receive was empty, or the claim
      // was collected.
      if (found === undefined) continue
      const answer = answerOf(columns.text(found, 'result'))
      const messages = await this.#recall(query, answer)
      if (columns.flag(found, 'live') && !isAnswerOver(answer, messages, columns.text(found, 'now_us'))) {
        assertUnchanged(queue, answer, messages)
        return this.#again(query, claim, answer, visibilityTimeoutMs)
      }
      await query(this.#claims.remove, claim)
    }
    throw unsettledClaim(claim[0])
  }

  /** Restarts the visibility timeout of the messages. */
  async #again(
    query: Query,
    claim: readonly [consumer: string, key: string],
    answer: readonly AnsweredMessage[],
    visibilityTimeoutMs: number,
  ): Promise<readonly ReceivedMessage[]> {
    const places = textArray(answer.map(({ place }) => place))
    const { rows } = await query(this.#sql.extendRecalled, [places, visibilityTimeoutMs])
    const byPlace = new Map(rows.map((row) => [columns.text(row, 'place'), row]))
    const repeated = answer.map(({ place, receipt }) => receivedOf(byPlace.get(place)!, receipt))
    await this.#remember(query, claim, repeated)
    return repeated
  }

  async #recall(
    query: Query,
    messages: readonly { readonly place: string }[],
  ): Promise<readonly AnsweredMessage[]> {
    const { rows } = await query(this.#sql.recall, [textArray(messages.map(({ place }) => place))])
    return rows.map(answeredOf)
  }

  async #remember(
    query: Query,
    claim: readonly [consumer: string, key: string],
    received: readonly ReceivedMessage[],
  ): Promise<void> {
    const places = received.map(({ place }) => ({ place: String(place) }))
    const stored = new Map((await this.#recall(query, places)).map((message) => [message.place, message]))
    const answer = places.map(({ place }) => stored.get(place)!)
    await query(this.#claims.saveResult, [...claim, storedAnswer(answer)])
  }
}

function answeredOf(row: Row): AnsweredMessage {
  return {
    place: columns.text(row, 'place'),
    receipt: columns.text(row, 'receipt'),
    dueUs: columns.text(row, 'due_us'),
  }
}
