import { ReceiveAttemptError } from '@txbox/core'
import type { ReceiveAttempt, ReceiveRequest, QueueMessage } from '@txbox/core/ports'
import { inboxKey } from '@txbox/core/internal'
import { CLAIM_ROUNDS, unsettledClaim } from '../inbox/claims.ts'
import type { Row, RowReader } from '../row-reader.ts'

/** The consumer whose claims store the answers of repeatable receives. */
const ATTEMPTS_CONSUMER = '@receive'

/**
 * A message of a stored answer. Places, and instants in microseconds since 1970, are text, because they must be exact.
 */
interface RememberedReceipt {
  readonly place: string
  readonly receipt: string
  /** When the message is visible again. */
  readonly dueUs: string
}

type AttemptClaim = readonly [consumer: string, key: string]

export function attemptClaim(queue: string, id: string): AttemptClaim {
  return [ATTEMPTS_CONSUMER, inboxKey([queue, id], ATTEMPTS_CONSUMER).stored]
}

/** The statements of one database for repeatable receives. `R` runs statements in the transaction of the receive. */
interface AttemptDatabase<R> {
  readonly read: RowReader
  /** Whether the attempt is claimed before an earlier claim is read. */
  readonly claimsFirst: boolean
  /** Claims the attempt. Waits for another transaction that is claiming it. @returns false if a claim exists. */
  claim(run: R, claim: AttemptClaim, retentionMs: number): Promise<boolean>
  /** Reads and locks the claim. */
  remembered(run: R, claim: AttemptClaim): Promise<Row | undefined>
  remove(run: R, claim: AttemptClaim): Promise<unknown>
  saveResult(run: R, claim: AttemptClaim, result: string): Promise<unknown>
  /** Reads the messages that still have a receipt, except those that another transaction has locked. */
  recall(run: R, places: readonly string[]): Promise<readonly RememberedReceipt[]>
  /** Restarts the visibility timeout of the messages, and reads them. */
  extend(
    run: R,
    answer: readonly RememberedReceipt[],
    request: ReceiveRequest,
  ): Promise<readonly QueueMessage[]>
}

/** The answers of repeatable receives: a claim in the inbox table stores each. */
export class ReceiveAttempts<R> {
  readonly #database: AttemptDatabase<R>

  constructor(database: AttemptDatabase<R>) {
    this.#database = database
  }

  /**
   * Claims the attempt.
   *
   * @returns the messages of the earlier receive with this id; `undefined` if there was none, or its answer no longer
   *   counts.
   */
  async repeated(
    run: R,
    claim: AttemptClaim,
    request: ReceiveRequest,
    { retentionMs }: ReceiveAttempt,
  ): Promise<readonly QueueMessage[] | undefined> {
    const database = this.#database
    const { read } = database
    if (database.claimsFirst && (await database.claim(run, claim, retentionMs))) return undefined
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      const found = await database.remembered(run, claim)
      // If the claim has disappeared, the other receive was empty, or the claim was collected.
      if (found !== undefined) {
        const answer = answerOf(read.text(found, 'result'))
        const messages = await database.recall(
          run,
          answer.map(({ place }) => place),
        )
        if (read.flag(found, 'live') && !isAnswerOver(answer, messages, read.text(found, 'now_us'))) {
          assertUnchanged(request.queue, answer, messages)
          const repeated = await database.extend(run, answer, request)
          await this.remember(run, claim, repeated)
          return repeated
        }
        await database.remove(run, claim)
      }
      if (await database.claim(run, claim, retentionMs)) return undefined
    }
    throw unsettledClaim(claim[0])
  }

  /** Stores the answer of a receive. Removes the claim of a receive without messages. */
  async remember(run: R, claim: AttemptClaim, received: readonly QueueMessage[]): Promise<void> {
    if (received.length === 0) return void (await this.#database.remove(run, claim))
    const places = received.map(({ place }) => String(place))
    const stored = new Map(
      (await this.#database.recall(run, places)).map((message) => [message.place, message]),
    )
    const answer = places.map((place) => stored.get(place)!)
    const result = JSON.stringify(answer.map(({ place, receipt, dueUs }) => [place, receipt, dueUs]))
    await this.#database.saveResult(run, claim, result)
  }
}

function answerOf(result: string): readonly RememberedReceipt[] {
  const list = JSON.parse(result) as [string, string, string][]
  return list.map(([place, receipt, dueUs]) => ({ place, receipt, dueUs }))
}

/**
 * Whether the visibility timeouts of all messages of an answer have passed. Then the stored answer no longer counts,
 * and its id can be used like a new one.
 *
 * @param found the messages that still have a receipt, except those that another transaction has locked.
 */
function isAnswerOver(
  answer: readonly RememberedReceipt[],
  found: readonly RememberedReceipt[],
  nowUs: string,
): boolean {
  const isOver = ({ dueUs }: RememberedReceipt): boolean => BigInt(dueUs) <= BigInt(nowUs)
  const over = new Map(found.filter(isOver).map(({ place, receipt }) => [place, receipt]))
  return answer.every((message) => isOver(message) || over.get(message.place) === message.receipt)
}

/**
 * Checks that the messages are still in the state that the answer recorded.
 *
 * @param found the messages that still have a receipt, except those that another transaction has locked.
 * @throws {ReceiveAttemptError} when a message was settled, given back or received again, or became visible at another
 *   time.
 */
function assertUnchanged(
  queue: string,
  answer: readonly RememberedReceipt[],
  found: readonly RememberedReceipt[],
): void {
  const byPlace = new Map(found.map((message) => [message.place, message]))
  const changed = answer.filter(({ place, receipt, dueUs }) => {
    const now = byPlace.get(place)
    return now === undefined || now.receipt !== receipt || now.dueUs !== dueUs
  })
  if (changed.length === 0) return
  throw new ReceiveAttemptError(
    `The receive from the queue '${queue}' cannot be repeated: ${changed.length} of its ${answer.length} messages were handled, given ` +
      'back or received again meanwhile, or had their visibility timeout changed. Nothing was received. Receive with another attemptId.',
  )
}
