import { ReceiveAttemptError } from '@txbox/core'
import { inboxKey } from '@txbox/core/internal'

/** The consumer whose claims store the answers of repeatable receives. */
const ATTEMPTS_CONSUMER = '@receive'

/**
 * A message of a stored answer. Places, and instants in microseconds since 1970, are text, because they must be exact.
 */
export interface AnsweredMessage {
  readonly place: string
  readonly receipt: string
  /** When the message is visible again. */
  readonly dueUs: string
}

/** Returns the consumer and the key of the claim that stores an answer. */
export function attemptClaim(queue: string, id: string): [consumer: string, key: string] {
  return [ATTEMPTS_CONSUMER, inboxKey([queue, id], ATTEMPTS_CONSUMER).stored]
}

/** Encodes an answer as the claim stores it. */
export function storedAnswer(messages: readonly AnsweredMessage[]): string {
  return JSON.stringify(messages.map(({ place, receipt, dueUs }) => [place, receipt, dueUs]))
}

/** Reads a stored answer. */
export function answerOf(result: string): readonly AnsweredMessage[] {
  const list = JSON.parse(result) as [string, string, string][]
  return list.map(([place, receipt, dueUs]) => ({ place, receipt, dueUs }))
}

/**
 * Whether the visibility timeouts of all messages of an answer have passed. Then the stored answer no longer counts,
 * and its id can be used like a new one.
 *
 * @param found the messages that still have a receipt, except those that another transaction has locked.
 */
export function isAnswerOver(
  answer: readonly AnsweredMessage[],
  found: readonly AnsweredMessage[],
  nowUs: string,
): boolean {
  const isOver = ({ dueUs }: AnsweredMessage): boolean => BigInt(dueUs) <= BigInt(nowUs)
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
export function assertUnchanged(
  queue: string,
  answer: readonly AnsweredMessage[],
  found: readonly AnsweredMessage[],
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
