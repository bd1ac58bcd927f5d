import { randomUUID } from 'node:crypto'
import { connect, headers, type NatsConnection } from '@nats-io/transport-node'
import {
  jetstream,
  jetstreamManager,
  type JetStreamManager,
  type JsMsg,
  type StreamConfig,
} from '@nats-io/jetstream'
import { afterAll, beforeAll, inject, onTestFinished } from 'vitest'
import { natsPublisher, type NatsPublisherOptions, type Publisher } from '@txbox/nats'
import '../support/engines/provided.ts'
import { UnreliableNetwork } from '../support/worlds/unreliable-network.ts'

/** A NATS for the tests of a file, through a connection of its own. Streams of a test are deleted after its file. */
export class NatsUnderTest {
  readonly #urlOf: () => string
  readonly #streams: string[] = []
  #connection: NatsConnection | undefined
  #manager: JetStreamManager | undefined

  constructor(urlOf: () => string) {
    this.#urlOf = urlOf
  }

  get url(): string {
    return this.#urlOf()
  }

  get address(): { host: string; port: number } {
    const { hostname, port } = new URL(this.url)
    return { host: hostname, port: Number(port) }
  }

  get connection(): NatsConnection {
    return this.#connection!
  }

  get manager(): JetStreamManager {
    return this.#manager!
  }

  /** Whether the server is NATS 2.10 or later. */
  get isFrom210(): boolean {
    const [major, minor] = this.connection.info!.version.split('.').map(Number) as [number, number]
    return major > 2 || minor >= 10
  }

  async connect(options: object = {}): Promise<void> {
    const reconnects = { reconnectTimeWait: 20, reconnectJitter: 0, maxReconnectAttempts: -1 }
    this.#connection = await connect({ servers: this.url, ...reconnects, ...options })
    this.#manager = await jetstreamManager(this.#connection)
  }

  async close(): Promise<void> {
    for (const stream of this.#streams) await this.manager.streams.delete(stream).catch(() => undefined)
    await this.#connection?.close()
  }

  name(kind: string): string {
    return `txbox-test-${kind}-${randomUUID().slice(0, 13)}`
  }

  /** A new stream that takes the subjects `<name>.>`. @returns its name */
  async stream(config: Partial<StreamConfig> = {}): Promise<string> {
    const name = this.name('stream')
    this.#streams.push(name)
    await this.manager.streams.add({ name, subjects: [`${name}.>`], storage: 'memory', ...config })
    return name
  }

  /** @returns a function that takes the messages which the stream has stored since its last call. */
  async log(stream: string): Promise<() => Promise<JsMsg[]>> {
    let taken = 0
    return async () => {
      const { state } = await this.manager.streams.info(stream)
      const count = state.last_seq - taken
      if (count === 0) return []
      const consumer = await jetstream(this.connection).consumers.get(stream, {
        deliver_policy: 'by_start_sequence',
        opt_start_seq: taken + 1,
      })
      const messages: JsMsg[] = []
      while (messages.length < count) {
        for await (const message of await consumer.fetch({
          max_messages: count - messages.length,
          expires: 5000,
        })) {
          messages.push(message)
        }
      }
      await consumer.delete()
      taken = state.last_seq
      return messages
    }
  }

  /** Publishes messages with these ids, and waits until the stream has stored them. */
  async send(subject: string, ids: readonly string[], payload = '{}', key?: string): Promise<void> {
    const client = jetstream(this.connection)
    await Promise.all(
      ids.map((id) => {
        const fields = headers()
        if (key !== undefined) fields.set('txbox-key', key)
        return client.publish(subject, payload, { msgID: id, headers: fields })
      }),
    )
  }

  /** A publisher that is closed at the end of the test. */
  publisher(options: Partial<NatsPublisherOptions> = {}): Publisher {
    const publisher = natsPublisher({ servers: this.url, ...options })
    onTestFinished(() => publisher.close?.())
    return publisher
  }

  /** A network in front of this server, which is closed at the end of the test. */
  async network(): Promise<UnreliableNetwork> {
    const network = await UnreliableNetwork.to(this.address)
    onTestFinished(() => network.close())
    return network
  }
}

/** The same server at another address. */
export function urlAt({ host, port }: { host: string; port: number }): string {
  return `nats://${host}:${port}`
}

export function idOf({ headers: fields }: JsMsg): string {
  return fields?.last('txbox-id') || fields?.last('Nats-Msg-Id') || ''
}

export function idsOf(messages: readonly JsMsg[]): string[] {
  return messages.map(idOf)
}

/** The NATS of the run, for a test file. */
export function useNats(): NatsUnderTest {
  const nats = new NatsUnderTest(() => inject('servers')['nats']!)
  beforeAll(() => nats.connect())
  afterAll(() => nats.close())
  return nats
}
