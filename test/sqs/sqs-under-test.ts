import { randomUUID } from 'node:crypto'
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  DeleteQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SQSClient,
  SendMessageBatchCommand,
  type Message,
  type SendMessageBatchRequestEntry,
} from '@aws-sdk/client-sqs'
import { sqsPublisher, type Publisher, type SqsPublisherOptions } from '@txbox/sqs'
import { startFauxqs, type FauxqsServer } from 'fauxqs'
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'

export const REGION = process.env['AWS_REGION'] ?? 'eu-central-1'

/** What the stand-ins take. For a real SQS, the environment has real ones. */
export const CREDENTIALS = {
  accessKeyId: process.env['AWS_ACCESS_KEY_ID'] ?? 'test',
  secretAccessKey: process.env['AWS_SECRET_ACCESS_KEY'] ?? 'test',
}

/** Settings of clients for a server at this address, which never follow the URL of a queue to another address. */
export function clientSettings(endpoint: string) {
  return {
    endpoint,
    region: REGION,
    credentials: CREDENTIALS,
    maxAttempts: 1,
    useQueueUrlAsEndpoint: false,
  }
}

/** The server that the project names, or else fauxqs in this process, for the tests of a file. */
export class SqsUnderTest {
  readonly client: SQSClient
  readonly endpoint: string
  /** `undefined` on another server. */
  readonly fauxqs: FauxqsServer | undefined

  readonly #urls = new Map<string, string>()

  constructor(endpoint: string, fauxqs: FauxqsServer | undefined) {
    this.endpoint = endpoint
    this.fauxqs = fauxqs
    this.client = new SQSClient(clientSettings(endpoint))
  }

  static async start(): Promise<SqsUnderTest> {
    // Clients that the publisher makes look for credentials in the environment.
    process.env['AWS_ACCESS_KEY_ID'] ??= CREDENTIALS.accessKeyId
    process.env['AWS_SECRET_ACCESS_KEY'] ??= CREDENTIALS.secretAccessKey
    const given = inject('servers')['sqs']
    if (given !== undefined) return new SqsUnderTest(given, undefined)
    const fauxqs = await startFauxqs({ port: 0, logger: false, defaultRegion: REGION })
    return new SqsUnderTest(`http://127.0.0.1:${fauxqs.port}`, fauxqs)
  }

  name(text = 'queue'): string {
    return `txbox-${text}-${randomUUID().slice(0, 13)}`
  }

  /** Creates a queue, and returns its name. It is deleted at the end of the test. */
  async queue({
    fifo = false,
    attributes = {},
  }: {
    readonly fifo?: boolean
    readonly attributes?: Readonly<Record<string, string>>
  } = {}): Promise<string> {
    const QueueName = `${this.name()}${fifo ? '.fifo' : ''}`
    const { QueueUrl } = await this.client.send(
      new CreateQueueCommand({
        QueueName,
        Attributes: { ...attributes, ...(fifo && { FifoQueue: 'true' }) },
      }),
    )
    this.#urls.set(QueueName, QueueUrl!)
    onTestFinished(async () => {
      await this.client.send(new DeleteQueueCommand({ QueueUrl })).catch(() => undefined)
    })
    return QueueName
  }

  async remove(queue: string): Promise<void> {
    await this.client.send(new DeleteQueueCommand({ QueueUrl: this.url(queue) }))
  }

  url(queue: string): string {
    return this.#urls.get(queue)!
  }

  publisher(options: SqsPublisherOptions = {}): Publisher {
    const publisher = sqsPublisher({ client: this.client, ...options })
    onTestFinished(() => publisher.close?.())
    return publisher
  }

  /** Receives and deletes all messages that can be received, in the order of arrival. */
  async take(queue: string): Promise<readonly Message[]> {
    const QueueUrl = this.url(queue)
    const taken: Message[] = []
    for (;;) {
      const { Messages = [] } = await this.client.send(
        new ReceiveMessageCommand({
          QueueUrl,
          MaxNumberOfMessages: 10,
          MessageAttributeNames: ['All'],
          MessageSystemAttributeNames: ['All'],
        }),
      )
      if (Messages.length === 0) return taken
      taken.push(...Messages)
      const Entries = Messages.map(({ ReceiptHandle }, n) => ({ Id: String(n), ReceiptHandle }))
      await this.client.send(new DeleteMessageBatchCommand({ QueueUrl, Entries }))
    }
  }

  async send(queue: string, entries: readonly Omit<SendMessageBatchRequestEntry, 'Id'>[]): Promise<void> {
    for (let from = 0; from < entries.length; from += 10) {
      const Entries = entries
        .slice(from, from + 10)
        .map((entry, n) => Object.assign({ Id: String(n) }, entry))
      const input = { QueueUrl: this.url(queue), Entries: Entries as SendMessageBatchRequestEntry[] }
      const { Failed = [] } = await this.client.send(new SendMessageBatchCommand(input))
      if (Failed.length > 0) throw new Error(JSON.stringify(Failed))
    }
  }

  /** How many messages can be received, and how many are out. */
  async counts(queue: string): Promise<{ readonly ready: number; readonly out: number }> {
    const { Attributes = {} } = await this.client.send(
      new GetQueueAttributesCommand({ QueueUrl: this.url(queue), AttributeNames: ['All'] }),
    )
    return {
      ready: Number(Attributes['ApproximateNumberOfMessages']),
      out: Number(Attributes['ApproximateNumberOfMessagesNotVisible']),
    }
  }

  async network(): Promise<UnreliableNetwork> {
    const { hostname, port, protocol } = new URL(this.endpoint)
    const target = { host: hostname, port: Number(port || (protocol === 'https:' ? 443 : 80)) }
    const network = await UnreliableNetwork.to(target)
    onTestFinished(() => network.close())
    return network
  }

  async close(): Promise<void> {
    this.client.destroy()
    await this.fauxqs?.stop()
  }
}

/** The address of a network, as an endpoint. */
export function endpointAt({ address }: UnreliableNetwork): string {
  return `http://${address.host}:${address.port}`
}

/** The server for the tests of a file. */
export function useSqs(): { readonly current: SqsUnderTest } {
  const holder = {} as { current: SqsUnderTest }
  beforeAll(async () => {
    holder.current = await SqsUnderTest.start()
  })
  afterAll(() => holder.current.close())
  return holder
}

/** The text of an attribute; `undefined` if there is none. */
export function attributeOf(message: Message, name: string): string | undefined {
  return message.MessageAttributes?.[name]?.StringValue
}
