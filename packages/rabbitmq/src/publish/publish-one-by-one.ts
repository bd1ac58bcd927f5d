import {
  PermanentError,
  RetryLaterError,
  type OutboxMessage,
  type PublishOptions,
  type PublishResult,
} from '@txbox/core'
import { oneLine, OrderedBatch } from '@txbox/core/internal'
import type { BrokerConnection } from './broker-connection.ts'
import type { ConfirmingChannel } from './confirming-channel.ts'
import { PublishCall, type CallSettings } from './publish-call.ts'

/** Why the broker closed the channel because of one message. */
type Objection = 'never' | 'not-now'

/**
 * Whether the broker may have closed the channel because of a single message. The broker does not say which message:
 * the channel closes, and with it all messages that were in flight.
 */
export function mayBlameOneMessage(channel: ConfirmingChannel): boolean {
  return objectionOf(channel) !== undefined
}

/**
 * Publishes the messages without a result one after another, on a separate channel, so that only the message that makes the
 * broker close the channel is rejected. Each message waits for the broker's answer to the message before; otherwise one
 * such message would stop all other messages forever.
 *
 * @returns the call of a message that was not confirmed in time, after which no more messages were sent.
 * @throws {BrokerUnavailableError} when the broker refuses more than a single message.
 */
export async function publishOneByOne(
  connection: BrokerConnection,
  batch: OrderedBatch,
  settings: CallSettings,
  { signal, answered }: PublishOptions,
): Promise<PublishCall | undefined> {
  const settle = (index: number, result: PublishResult): void => {
    batch.settle(index, result)
    answered?.(index, result)
  }
  let channel = await connection.openChannel()
  for (const [index, message] of batch.messages.entries()) {
    if (batch.results[index] !== undefined) continue
    const alone = new OrderedBatch([message])
    const call = new PublishCall(channel, alone, settings, (_, result) => settle(index, result))
    try {
      if ((await call.run(signal)) === 'timed-out') return call
    } catch (error) {
      const objection = objectionOf(channel)
      if (objection === undefined || connection.failure !== undefined || signal.aborted) throw error
      settle(index, rejection(message, objection, channel.refusal?.reason ?? ''))
      channel = await connection.openChannel()
    }
  }
  await channel.close()
  return undefined
}

function objectionOf(channel: ConfirmingChannel): Objection | undefined {
  const { code, reason } = channel.refusal ?? {}
  // PRECONDITION_FAILED: the message is too large for the broker, or the broker cannot parse a header.
  if (code === 406) return 'never'
  // ACCESS_REFUSED: the user may not write to the routing key; permissions can change.
  if (code === 403 && /\baccess to topic '/.test(reason ?? '')) return 'not-now'
  return undefined
}

function rejection({ id, topic }: OutboxMessage, objection: Objection, reason: string): PublishResult {
  const text = `Message ${oneLine(id)} with routing key '${oneLine(topic)}' was refused by RabbitMQ: ${reason}.`
  return objection === 'never'
    ? { status: 'rejected', retryable: false, error: new PermanentError(text) }
    : { status: 'rejected', retryable: true, error: new RetryLaterError({ message: text }) }
}
