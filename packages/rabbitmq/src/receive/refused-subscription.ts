import { BrokerUnavailableError } from '@txbox/core'
import { brokersReasonOf, replyCodeOf } from '../connection/reason-of.ts'

/** The options of `declare` that set an argument of the queue. */
const OPTION_OF_ARGUMENT: Readonly<Record<string, string>> = {
  'x-queue-type': 'type',
  'x-dead-letter-exchange': 'deadLetterExchange',
  'x-dead-letter-strategy': 'deadLetterExchange',
  'x-overflow': 'deadLetterExchange',
  'x-single-active-consumer': 'singleActiveConsumer',
  'x-delivery-limit': 'deliveryLimit',
  'x-delayed-retry-type': 'delayedRetry',
  'x-delayed-retry-min': 'delayedRetry',
  'x-delayed-retry-max': 'delayedRetry',
}

/**
 * Explains why the broker does not let a consumer use its queue, and what to change.
 *
 * @param broker the address, for the message.
 * @param name the queue with the broker's address, for the message.
 * @param error an error with a reply code of the broker.
 */
export function refusedSubscription(broker: string, name: string, error: unknown): BrokerUnavailableError {
  return new BrokerUnavailableError(
    `RabbitMQ at ${broker} does not let this consumer use the ${name}: ${replyCodeOf(error)} ${brokersReasonOf(error)}. ${adviceOn(error)}`,
    { cause: error },
  )
}

function adviceOn(error: unknown): string {
  const reason = brokersReasonOf(error)
  const code = replyCodeOf(error)
  if (code === 406) return adviceOnInequivalent(reason)
  if (code === 404 && reason.includes('no exchange')) {
    return "Create the exchange before the consumer starts, or correct the option 'declare.bindings'."
  }
  if (code === 403) {
    return "Give the user this permission. To consume, a user needs 'read' on the queue; the option 'declare' also needs 'configure' on the queue, 'read' on it and 'write' on the dead letter exchange if there is one, and 'write' on the queue and 'read' on the exchange for each binding."
  }
  if (code === 405) return 'Another connection uses the queue exclusively, until that connection ends.'
  return "Create the queue, or let the option 'declare' create it as it is."
}

function adviceOnInequivalent(reason: string): string {
  const argument = /inequivalent arg '([^']+)'/.exec(reason)?.[1]
  if (argument === undefined) return "Change the option 'declare' accordingly."
  const option = OPTION_OF_ARGUMENT[argument]
  const change =
    option === undefined ? '' : `change the option 'declare.${option}', which sets this argument, or `
  return (
    `The queue exists with another value of '${argument}', and the arguments of a queue cannot be changed: ${change}remove the ` +
    "option 'declare' and say with 'keepsRejected', 'countsDeliveries' and 'singleActiveConsumer' what the queue does, or delete the " +
    'queue when it is empty.'
  )
}
