import { randomUUID } from 'node:crypto'
import amqp, {
  type Channel,
  type ChannelModel,
  type ConfirmChannel,
  type GetMessage,
  type Options,
} from 'amqplib'
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest'
import { rabbitmqPublisher, type Publisher, type RabbitmqPublisherOptions } from '@txbox/rabbitmq'
import '../support/engines/provided.ts'
import { FrameProxy } from './frame-proxy.ts'

export {
  failure,
  outboxMessage,
  outboxMessages,
  publish,
  reason,
  signal,
  summary,
} from '../support/subjects/publishing.ts'

/** Fields of a message on which the broker closes the channel, if the message passes an `offendingProxy`. */
export const OFFENCE = { headers: { cc: 'text, where RabbitMQ expects a list' } }

/** The RabbitMQ of the run, through a separate connection. Objects of a test are deleted after its file. */
export class BrokerUnderTest {
  readonly #undo: ((channel: Channel) => Promise<unknown>)[] = []
  #model: ChannelModel | undefined
  #channel: Channel | undefined

  get url(): string {
    const url = inject('servers')['rabbitmq']
    if (url === undefined) throw new Error('The project has no RabbitMQ.')
    return url
  }

  get address(): { host: string; port: number } {
    const { hostname, port } = new URL(this.url)
    return { host: hostname, port: Number(port === '' ? 5672 : port) }
  }

  get channel(): Channel {
    if (this.#channel === undefined) throw new Error('The broker is connected before the first test.')
    return this.#channel
  }

  /** The version without its last part, such as 4.3. */
  get version(): number {
    return Number.parseFloat(String(this.#model?.connection.serverProperties.version))
  }

  async connect(): Promise<void> {
    this.#model = await amqp.connect(this.url)
    this.#channel = await this.#model.createChannel()
    this.#channel.on('error', () => undefined)
  }

  async close(): Promise<void> {
    // A test that failed may have closed the other channel.
    const channel = await this.#model?.createChannel()
    if (channel !== undefined) for (const undo of this.#undo.toReversed()) await undo(channel)
    await this.#model?.close()
  }

  /** The same broker at another address, such as that of a proxy. */
  urlAt({ host, port }: { host: string; port: number }): string {
    const url = new URL(this.url)
    url.hostname = host
    url.port = String(port)
    return url.href
  }

  /** A new, durable queue. @returns its name */
  async queue(options: { type?: 'classic' | 'quorum'; arguments?: object } = {}): Promise<string> {
    const name = this.name('queue')
    await this.channel.assertQueue(name, {
      arguments: { 'x-queue-type': options.type ?? 'classic', ...options.arguments },
    })
    this.#undo.push((channel) => channel.deleteQueue(name))
    return name
  }

  /** Deletes a queue that a test makes by itself after the file. */
  deleteAfterwards(queue: string): void {
    this.#undo.push((channel) => channel.deleteQueue(queue))
  }

  /** A channel with confirms, on the same connection. */
  async confirmChannel(): Promise<ConfirmChannel> {
    if (this.#model === undefined) throw new Error('The broker is connected before the first test.')
    return this.#model.createConfirmChannel()
  }

  /** A new, durable exchange. @returns its name */
  async exchange(type = 'topic', options: Options.AssertExchange = {}): Promise<string> {
    const name = this.exchangeName()
    await this.channel.assertExchange(name, type, options)
    return name
  }

  /** A name of a new exchange. An exchange with this name is deleted after the file. */
  exchangeName(): string {
    const name = this.name('exchange')
    this.#undo.push((channel) => channel.deleteExchange(name))
    return name
  }

  name(kind: string): string {
    return `txbox-test-${kind}-${randomUUID()}`
  }

  /** Takes all ready messages of a queue. */
  async take(queue: string): Promise<GetMessage[]> {
    const taken: GetMessage[] = []
    for (;;) {
      const message = await this.channel.get(queue, { noAck: true })
      if (message === false) return taken
      taken.push(message)
    }
  }

  async ids(queue: string): Promise<string[]> {
    return (await this.take(queue)).map(({ properties }) => String(properties.messageId))
  }

  /** A proxy in front of this broker that is closed at the end of the test. */
  async frameProxy(): Promise<FrameProxy> {
    const proxy = await FrameProxy.to(this.address)
    onTestFinished(() => proxy.close())
    return proxy
  }

  /**
   * A proxy in front of this broker that makes the header of {@link OFFENCE} a text header `CC`: the broker closes the channel
   * of such a message, and does not name the message. It does the same for a message that is larger than its limit, and for a
   * routing key for which the user has no permission. The publisher itself refuses a header `CC`.
   */
  async offendingProxy(): Promise<FrameProxy> {
    const proxy = await this.frameProxy()
    proxy.renameHeader('cc', 'CC')
    return proxy
  }

  /** A publisher to the default exchange, through a proxy, that is closed at the end of the test. */
  publisherAt(
    { address }: { address: { host: string; port: number } },
    options: Partial<RabbitmqPublisherOptions> = {},
  ): Publisher {
    return this.publisher({ url: this.urlAt(address), exchange: '', ...options })
  }

  /** A publisher that is closed at the end of the test. */
  publisher(options: Partial<RabbitmqPublisherOptions> = {}): Publisher {
    const publisher = rabbitmqPublisher({ url: this.url, ...options })
    onTestFinished(() => publisher.close?.())
    return publisher
  }
}

/** The names of all retry queues that a source of this queue may declare. */
export function retryQueuesOf(queue: string): string[] {
  return [1, 5, 30, 120, 300, 900, 3600].map((seconds) => `${queue}.txbox-retry-${seconds}`)
}

/** The broker for a test file. */
export function useBroker(): BrokerUnderTest {
  const broker = new BrokerUnderTest()
  beforeAll(() => broker.connect())
  afterAll(() => broker.close())
  return broker
}
