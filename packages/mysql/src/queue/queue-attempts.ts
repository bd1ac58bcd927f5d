/* MySQL and MariaDB report an existing claim as an error, and read messages again after extending them. */
import type { ReceiveAttempt, ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import { ReceiveAttempts, attemptClaim } from '@txbox/sql/stores'
import type { Tables } from '../connection/identifiers.ts'
import { columns, placeOf } from '../connection/columns.ts'
import { DUPLICATE_KEY, numberOf } from '../connection/errors.ts'
import { inboxStatements } from '../inbox/inbox-statements.ts'
import { json, microseconds, type Utf8 } from '../connection/literals.ts'
import { queueAttemptStatements } from './queue-attempt-statements.ts'
import type { Positions, QueueReceiver } from './queue-receiver.ts'
import { lockRows, readMessages } from './queue-rows.ts'
import type { Run } from '../connection/short-transaction.ts'

export class QueueAttempts {
  readonly #receiver: QueueReceiver
  readonly #attempts: ReceiveAttempts<Run>

  constructor(tables: Tables, receiver: QueueReceiver) {
    const { remembered } = queueAttemptStatements(tables)
    // Both engines have the same text for the statements that are used here.
    const claims = inboxStatements(tables, 'mysql')
    this.#receiver = receiver
    this.#attempts = new ReceiveAttempts<Run>({
      read: columns,
      // A refused INSERT leaves a shared lock, and with it concurrent repetitions would deadlock.
      claimsFirst: false,
      async claim(run, claim, retentionMs) {
        try {
          await run(claims.claim, [...claim.map(utf8), null, microseconds(retentionMs)])
          return true
        } catch (error) {
          if (numberOf(error) !== DUPLICATE_KEY) throw error
          return false
        }
      },
      remembered: async (run, claim) => (await run(remembered, claim.map(utf8))).rows[0],
      remove: (run, claim) => run(claims.removeExpired, claim.map(utf8)),
      saveResult: (run, claim, result) => run(claims.saveResult, [result, ...claim.map(utf8)]),
      async recall(run, places) {
        const rows = await lockRows(run, await receiver.sql(), places)
        return rows
          .filter((row) => row['receipt'] !== null)
          .map((row) => ({
            place: placeOf(row),
            receipt: uuidOf(columns.text(row, 'receipt')),
            dueUs: columns.text(row, 'due_us'),
          }))
      },
      async extend(run, answer, { visibilityTimeoutMs, maxReceives }) {
        const sql = await receiver.sql()
        await run(sql.extend, [json(answer.map(({ place }) => place)), microseconds(visibilityTimeoutMs)])
        const repeated: QueueMessage[] = []
        for (const { place, receipt } of answer) {
          repeated.push(...(await readMessages(run, sql, [place], receipt, maxReceives)))
        }
        return repeated
      },
    })
  }

  /**
   * Claims the attempt and receives in one transaction, so that either both the claim and the receipts are stored, or
   * neither.
   */
  receive(request: ReceiveRequest, attempt: ReceiveAttempt): Promise<readonly QueueMessage[]> {
    const claim = attemptClaim(request.queue, attempt.id)
    return this.#receiver.receive(request, async (search, positions, look) => {
      const { received, moved } = await this.#receiver.transaction(async (run) => {
        const repeated = await this.#attempts.repeated(run, claim, request, attempt)
        if (repeated !== undefined) return { received: repeated, moved: positions }
        // If the transaction is repeated after a conflict, the search must start from the same positions again.
        const from: Positions = new Map(positions)
        const messages = await this.#receiver.visitAll(search, from, look, (work) => work(run))
        await this.#attempts.remember(run, claim, messages)
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
}

function utf8(text: string): Utf8 {
  return { utf8: text }
}

function uuidOf(hexadecimal: string): string {
  return hexadecimal.toLowerCase().replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
