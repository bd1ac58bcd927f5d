import { PermanentError, RetryLaterError, oneLine, type OutboxMessage, type PublishResult } from '@txbox/core'
import type { BrokerConnection } from './broker-connection.ts'
import type { ConfirmingChannel } from './confirming-channel.ts'
import { OrderedBatch } from './ordered-batch.ts'
import { PublishCall, type CallEnd, type CallSettings } from './publish-call.ts'

/** What the broker has against a message, when it closed the channel on it. */
type Objection = 'never' | 'not-now'

/**
 * Whether a broker that closed the channel may have done so because of a single message. It does not say which: the
 * channel goes, and with it all that was in flight.
 */
export function mayBlameOneMessage(channel: ConfirmingChannel): boolean {
  return objectionOf(channel) !== undefined
}

/**
 * Publishes what has no result yet one message after the other, on channels of its own, so that a message that the
 * broker closes the channel on is rejected alone. As slow as the broker's answers, but it ends: otherwise one such
 * message would stop all others permanently.
 *
 * @throws {BrokerUnavailableError} when it is not a single message that the broker refuses.
 */
export async function publishOneByOne(
  connection: BrokerConnection,
  batch: OrderedBatch,
  settings: CallSettings,
  signal: AbortSignal,
): Promise<CallEnd> {
  let channel = await connection.openChannel()
  for (const [index, message] of batch.messages.entries()) {
    if (batch.results[index] !== undefined) continue
    const alone = new OrderedBatch([message])
    try {
      const end = await new PublishCall(channel, alone, settings).run(signal)
      if (end === 'timed-out') return end
      batch.settle(index, alone.results[0]!)
    } catch (error) {
      const objection = objectionOf(channel)
      if (objection === undefined || connection.failed || signal.aborted) throw error
      batch.settle(index, rejection(message, objection, channel.refusal?.reason ?? ''))
      channel = await connection.openChannel()
    }
  }
  await channel.close()
  return 'settled'
}

function objectionOf(channel: ConfirmingChannel): Objection | undefined {
  const { code, reason } = channel.refusal ?? {}
  // PRECONDITION_FAILED: too large for the broker, or a header that it wants to read and cannot.
  if (code === 406) return 'never'
  // ACCESS_REFUSED: to a routing key that the user may not write to; permissions can change.
  if (code === 403 && /\baccess to topic '/.test(reason ?? '')) return 'not-now'
  return undefined
}

function rejection({ id, topic }: OutboxMessage, objection: Objection, reason: string): PublishResult {
  const text = `Message ${oneLine(id)} with routing key '${oneLine(topic)}' was refused by RabbitMQ: ${reason}.`
  return objection === 'never'
    ? { status: 'rejected', retryable: false, error: new PermanentError(text) }
    : { status: 'rejected', retryable: true, error: new RetryLaterError({ message: text }) }
}
