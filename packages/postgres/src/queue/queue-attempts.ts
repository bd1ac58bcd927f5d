/* PostgreSQL extends and returns messages in one statement; MySQL and MariaDB extend them, and then read them again. */
import type { ReceiveAttempt, ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import { ReceiveAttempts, attemptClaim } from '@txbox/sql/stores'
import { columns } from '../connection/columns.ts'
import { inboxStatements } from '../inbox/inbox-statements.ts'
import { textArray } from '../connection/integer-arrays.ts'
import type { Query } from '../connection/own-transaction.ts'
import type { QueueReceiver } from './queue-receiver.ts'
import { receivedOf } from './queue-rows.ts'
import { queueStatements } from './queue-statements.ts'

/** Repeatable receives. */
export class QueueAttempts {
  readonly #receiver: QueueReceiver
  readonly #attempts: ReceiveAttempts<Query>

  constructor(schema: string, receiver: QueueReceiver) {
    const sql = queueStatements(schema)
    const claims = inboxStatements(schema)
    this.#receiver = receiver
    this.#attempts = new ReceiveAttempts<Query>({
      read: columns,
      claimsFirst: true,
      claim: async (query, claim, retentionMs) =>
        (await query(sql.claimAttempt, [...claim, retentionMs])).rows.length > 0,
      remembered: async (query, claim) => (await query(sql.remembered, claim)).rows[0],
      remove: (query, claim) => query(claims.remove, claim),
      saveResult: (query, claim, result) => query(claims.saveResult, [...claim, result]),
      async recall(query, places) {
        const { rows } = await query(sql.recall, [textArray(places)])
        return rows.map((row) => ({
          place: columns.text(row, 'place'),
          receipt: columns.text(row, 'receipt'),
          dueUs: columns.text(row, 'due_us'),
        }))
      },
      async extend(query, answer, { visibilityTimeoutMs, maxReceives }) {
        const places = textArray(answer.map(({ place }) => place))
        const { rows } = await query(sql.extendRecalled, [places, visibilityTimeoutMs])
        const byPlace = new Map(rows.map((row) => [columns.text(row, 'place'), row]))
        return answer.map(({ place, receipt }) => receivedOf(byPlace.get(place)!, receipt, maxReceives))
      },
    })
  }

  /**
   * Claims the attempt and receives in one transaction, so that either both the claim and the receipts are stored, or
   * neither.
   */
  receive(request: ReceiveRequest, attempt: ReceiveAttempt): Promise<readonly QueueMessage[]> {
    const claim = attemptClaim(request.queue, attempt.id)
    return this.#receiver.receive(request, (search) =>
      this.#receiver.transaction(async (transaction) => {
        const { query } = transaction
        const repeated = await this.#attempts.repeated(query, claim, request, attempt)
        if (repeated !== undefined) return { received: repeated, moved: false }
        const visit = await this.#receiver.visitWithin(transaction, search)
        await this.#attempts.remember(query, claim, visit.received)
        return visit
      }),
    )
  }
}
