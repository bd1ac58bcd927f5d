import { oneLine } from '@txbox/core/internal'
import { refusal } from './outgoing-message.ts'

/** Where a message goes: a queue of SQS or a topic of SNS. */
export interface Destination {
  readonly service: 'SQS' | 'SNS'
  /** The URL or name of a queue, or the ARN of a topic. */
  readonly name: string
  /** Whether the name is that of a queue, whose URL SQS must be asked for. */
  readonly isQueueName: boolean
  readonly isFifo: boolean
}

const QUEUE_NAME = /^(?=.{1,80}$)[\w-]+(\.fifo)?$/
const TOPIC_ARN = /^arn:aws[\w-]*:sns:[\w-]+:\d{12}:[\w-]{1,251}(\.fifo)?$/
const LONGEST_URL = 2048

/** Returns the queue or topic of this name, URL or ARN; `undefined` if there can be none. */
export function destinationOf(name: string): Destination | undefined {
  const isFifo = name.endsWith('.fifo')
  if (QUEUE_NAME.test(name)) return { service: 'SQS', name, isQueueName: true, isFifo }
  if (TOPIC_ARN.test(name)) return { service: 'SNS', name, isQueueName: false, isFifo }
  return isQueueUrl(name) ? { service: 'SQS', name, isQueueName: false, isFifo } : undefined
}

/** @throws {PermanentError} when the message has no destination that could exist. */
export function destinationOfMessage(id: string, name: string): Destination {
  const destination = destinationOf(name)
  if (destination !== undefined) return destination
  throw refusal(
    id,
    `its topic '${oneLine(name, 100)}' is neither the name of a queue (1 to 80 letters, digits, '-' and '_', and '.fifo' at the end), nor ` +
      "the URL of a queue, nor the ARN of an SNS topic. Publish it to another topic, or map the topic by the option 'destination'",
  )
}

function isQueueUrl(text: string): boolean {
  if (text.length > LONGEST_URL || !/^https?:\/\/[!-~]+$/.test(text) || !URL.canParse(text)) return false
  const { username, password, search, hash, pathname } = new URL(text)
  if (username !== '' || password !== '' || search !== '' || hash !== '') return false
  return QUEUE_NAME.test(pathname.split('/').at(-1) ?? '')
}
