import { randomUUID } from 'node:crypto'
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteQueueCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageBatchCommand,
  type Message,
} from '@aws-sdk/client-sqs'
import { sqsPublisher, sqsSource } from '@txbox/sqs'
import type { HandRow } from '../postgres/relay-by-hand.ts'
import { fieldsOf, type BenchBroker } from './bench-broker.ts'
import { HandlersByHand, readMessage } from './work-by-hand.ts'

const SQS_URL = process.env['SQS_URL']
/** Batches in flight at the same time, as in the publisher. */
const CONCURRENCY = 16
const BATCH = 10
const RECEIVERS = 4

/**
 * A standard queue of a server that speaks SQS at SQS_URL. Each drain has another queue: a request of an earlier receiver that waits at
 * the server would take messages, and hide them for half a minute.
 */
export const sqsBroker: BenchBroker = {
  name: 'SQS',
  messages: 5000,
  variable: 'SQS_URL',
  async open() {
    if (SQS_URL === undefined) return undefined
    const client = new SQSClient({
      endpoint: SQS_URL,
      region: 'us-east-1',
      credentials: { accessKeyId: 'bench', secretAccessKey: 'bench' },
    })
    let queue = await createQueue(client)
    return {
      async empty() {
        await client.send(new DeleteQueueCommand({ QueueUrl: queue }))
        queue = await createQueue(client)
      },
      // SQS knows only an approximate number.
      count: async () => undefined,
      publisher: () => sqsPublisher({ client, destination: () => queue }),
      client: async () => ({
        async publish(rows) {
          const batches = Array.from({ length: Math.ceil(rows.length / BATCH) }, (_, n) =>
            rows.slice(n * BATCH, (n + 1) * BATCH),
          )
          await inTurns(CONCURRENCY, batches, (batch) => send(client, queue, batch))
        },
        close: async () => undefined,
      }),
      source: () => sqsSource({ client, queue }),
      receiveBare: (messages) => receive(client, queue, messages, () => Promise.resolve()),
      receiveLikeSource(messages) {
        const handlers = new HandlersByHand()
        return receive(client, queue, messages, async (received) => {
          await Promise.all(received.map((message) => handlers.handle(read(message))))
        })
      },
      async dispose() {
        await client.send(new DeleteQueueCommand({ QueueUrl: queue }))
        client.destroy()
      },
    }
  },
}

async function createQueue(client: SQSClient): Promise<string> {
  const created = await client.send(new CreateQueueCommand({ QueueName: `txbox-bench-${randomUUID()}` }))
  return created.QueueUrl!
}

async function send(client: SQSClient, queue: string, rows: readonly HandRow[]): Promise<void> {
  const { Failed = [] } = await client.send(
    new SendMessageBatchCommand({
      QueueUrl: queue,
      Entries: rows.map((row, n) => ({
        Id: String(n),
        MessageBody: row.payload.toString(),
        // As in the publisher: a group makes a standard queue fair.
        ...(row.key !== null && { MessageGroupId: row.key }),
        MessageAttributes: Object.fromEntries(
          Object.entries(fieldsOf(row)).map(([name, value]) => [
            name,
            { DataType: 'String', StringValue: value },
          ]),
        ),
      })),
    }),
  )
  if (Failed.length > 0) throw new Error(`${Failed.length} messages were refused.`)
}

/** @param handle is called with the messages of a request before they are deleted. */
async function receive(
  client: SQSClient,
  queue: string,
  messages: number,
  handle: (received: readonly Message[]) => Promise<void>,
): Promise<void> {
  let handled = 0
  const receiver = async (): Promise<void> => {
    while (handled < messages) {
      const { Messages = [] } = await client.send(
        new ReceiveMessageCommand({
          QueueUrl: queue,
          MaxNumberOfMessages: BATCH,
          WaitTimeSeconds: 1,
          MessageAttributeNames: ['All'],
        }),
      )
      if (Messages.length === 0) continue
      await handle(Messages)
      const Entries = Messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }))
      await client.send(new DeleteMessageBatchCommand({ QueueUrl: queue, Entries }))
      handled += Messages.length
    }
  }
  await Promise.all(Array.from({ length: RECEIVERS }, receiver))
}

function read({ Body = '', MessageAttributes = {} }: Message) {
  const fields = Object.entries(MessageAttributes).map(
    ([name, { StringValue = '' }]) => [name, StringValue] as const,
  )
  return readMessage(fields, Body)
}

async function inTurns<T>(
  width: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<void> {
  const left = items.values()
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: width }, worker))
}
