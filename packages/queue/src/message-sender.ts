import type { DeduplicationOptions, StoredId } from '@txbox/core'
import type { DatabasePorts, NewStoredMessage } from '@txbox/core/ports'
import {
  DeduplicatedMessages,
  deduplicationRules,
  encodeMessages,
  refuseDeduplicationIds,
} from '@txbox/core/internal'
import type { NewQueueMessage, SendingQueue } from './queue.ts'

export interface SenderSettings {
  readonly name: string
  readonly notify: boolean
  readonly deduplication: DeduplicationOptions | undefined
}

/** The queue that only sends, in the caller's transactions. {@link SendingQueue} documents its method. */
export class MessageSender<P> implements SendingQueue<P> {
  readonly name: string
  readonly #ports: DatabasePorts
  readonly #notify: boolean
  readonly #call: { readonly where: 'send'; readonly topic: string; readonly consumer: string }
  readonly #deduplicated: DeduplicatedMessages | undefined

  constructor(ports: DatabasePorts, { name, notify, deduplication }: SenderSettings) {
    this.name = name
    this.#ports = ports
    this.#notify = notify
    this.#call = { where: 'send', topic: name, consumer: `@queue/${name}` }
    this.#deduplicated =
      deduplication === undefined
        ? undefined
        : new DeduplicatedMessages(ports.inbox, deduplicationRules('createQueue', deduplication), this.#call)
  }

  readonly send = (async (
    tx: object,
    message: NewQueueMessage | readonly NewQueueMessage[],
  ): Promise<StoredId | readonly StoredId[]> => {
    const messages: readonly NewQueueMessage[] = Array.isArray(message)
      ? message
      : [message as NewQueueMessage]
    const stored = encodeMessages(this.#call, messages)
    const identified = this.#deduplicated?.identify(messages, stored)
    if (identified === undefined) refuseDeduplicationIds(this.#call, messages)
    const session = await this.#ports.bind(tx)
    const append = async (first: readonly NewStoredMessage[]): Promise<void> =>
      this.#ports.queueSender.send(session, first, { notify: this.#notify })
    let ids: readonly StoredId[] = stored.map(({ id }) => ({ id, duplicate: false }))
    if (identified !== undefined) ids = await this.#deduplicated!.store(session, identified, append)
    else if (stored.length > 0) await append(stored)
    return Array.isArray(message) ? ids : ids[0]!
  }) as SendingQueue<P>['send']
}
