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

const NAME = /^[\w-]+(\.fifo)?$/
const TOPIC_ARN = /^arn:aws[\w-]*:sns:[\w-]+:\d{12}:([^:]*)$/
const LONGEST_QUEUE = 80
const LONGEST_TOPIC = 256
const LONGEST_URL = 2048

/** Returns the queue or topic of this name, URL or ARN; `undefined` if there can be none. */
export function destinationOf(name: string): Destination | undefined {
  const found = destinationOrFlaw(name)
  return typeof found === 'string' ? undefined : found
}

/** @throws {PermanentError} when the message has no destination that could exist. */
export function destinationOfMessage(id: string, name: string): Destination {
  const found = destinationOrFlaw(name)
  if (typeof found !== 'string') return found
  throw refusal(
    id,
    `its topic '${oneLine(name, 100)}' ${found}. Publish it to another topic, or map the topic by the option 'destination'`,
  )
}

/** Returns the destination, or why there can be none. */
function destinationOrFlaw(name: string): Destination | string {
  const isFifo = name.endsWith('.fifo')
  const topic = TOPIC_ARN.exec(name)?.[1]
  if (topic !== undefined && NAME.test(topic)) {
    if (topic.length > LONGEST_TOPIC) return tooLong('names a topic', topic, 'SNS', LONGEST_TOPIC)
    return { service: 'SNS', name, isQueueName: false, isFifo }
  }
  const isUrl = /^https?:\/\/[!-~]+$/.test(name)
  if (isUrl && name.length > LONGEST_URL)
    return `is a URL of ${name.length} characters; at most ${LONGEST_URL} are sent`
  const queue = isUrl ? queueOfUrl(name) : name
  if (queue === undefined || !NAME.test(queue)) {
    return (
      "is neither the name of a queue (letters, digits, '-' and '_', and '.fifo' at the end), nor the URL of a queue, nor the ARN of " +
      'an SNS topic'
    )
  }
  if (queue.length > LONGEST_QUEUE) return tooLong('names a queue', queue, 'SQS', LONGEST_QUEUE)
  return { service: 'SQS', name, isQueueName: !isUrl, isFifo }
}

function tooLong(what: string, text: string, allows: string, limit: number): string {
  return `${what} of ${text.length} characters; ${allows} allows ${limit}`
}

/** Returns the last part of the URL, if the URL has nothing that the URL of a queue has not. */
function queueOfUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined
  const { username, password, search, hash, pathname } = new URL(text)
  const isPlain = username === '' && password === '' && search === '' && hash === ''
  return isPlain ? pathname.split('/').at(-1) : undefined
}
