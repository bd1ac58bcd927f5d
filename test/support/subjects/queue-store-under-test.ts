import { randomUUID } from 'node:crypto'
import type {
  MessageToStore,
  QueueStore,
  ReceiveRequest,
  QueueMessage,
  ConnectedPorts,
} from '@txbox/core/ports'
import { connectedPortsOf, shardOf } from '@txbox/core/internal'
import type { Root } from '../engines/target.ts'

export const QUEUE = 'orders'

/** The ports of a stored queue, without `createQueue`. */
export class QueueStoreUnderTest {
  readonly store: QueueStore
  readonly ports: ConnectedPorts

  constructor(root: Pick<Root, 'database'>, statementTimeoutMs = 10_000, receiveTimeoutMs?: number) {
    this.ports = connectedPortsOf('test', root.database)
    this.store = this.ports.queue({
      statementTimeoutMs,
      ...(receiveTimeoutMs !== undefined && { receiveTimeoutMs }),
    })
  }

  /** Commits one message for each of these keys, in this order. @returns their ids */
  async send(...keys: readonly (string | undefined)[]): Promise<readonly string[]> {
    const messages = keys.map((key) => messageOf(key))
    await this.ports.transact((_, session) => this.ports.queueSender.send(session, messages), {})
    return messages.map(({ id }) => id)
  }

  receive(how: Partial<ReceiveRequest> = {}): Promise<readonly QueueMessage[]> {
    return this.store.receive({
      queue: QUEUE,
      limit: 10,
      visibilityTimeoutMs: 30_000,
      maxReceives: 10,
      remove: false,
      attempt: undefined,
      ...how,
    })
  }
}

export function messageOf(key: string | undefined, how: Partial<MessageToStore> = {}): MessageToStore {
  return {
    id: randomUUID(),
    shard: shardOf(key),
    topic: QUEUE,
    key,
    type: undefined,
    contentType: 'application/json',
    payload: Buffer.from('{"price":"1 €\\\\"}'),
    headers: {},
    correlationId: undefined,
    ...how,
  }
}
