import { InvalidMessageError, type Delivery, type InboxMessage, type ReceivedMessage } from '@txbox/core'
import { LazyAbort } from '@txbox/core/internal'
import { WIRE_HEADERS } from '../publish/outgoing-record.ts'
import { payloadOf, readHeaders, type ReadRecord } from './from-kafka.ts'
import type { OwnedPartition } from './owned-partition.ts'
import type { StoredRecord } from './stored-record.ts'

const NO_BYTES = new Uint8Array(0)

/** A record that the consumer has received. */
export interface HandedOut {
  readonly partition: OwnedPartition
  readonly record: StoredRecord
  /** The partition belongs to another member from now on. */
  lose(reason: unknown): void
}

interface DeliveryHow {
  /** Resolves when Kafka has the acceptance, as far as the caller must wait for that. */
  readonly accepted: (
    delivery: HandedOut,
    how: NonNullable<Parameters<Delivery['accept']>[0]>,
  ) => Promise<void>
  /** Hands the record out again, unless the consumer stops. */
  readonly returned: (delivery: HandedOut, isStopping: boolean) => void
}

export class KafkaDelivery<P> implements Delivery<P>, HandedOut {
  readonly message: InboxMessage<P>
  readonly undecodable?: unknown
  readonly key: string | undefined
  readonly deliveries: number
  readonly partition: OwnedPartition
  readonly record: StoredRecord
  readonly #how: DeliveryHow
  readonly #lost = new LazyAbort()
  #settled: Promise<void> | undefined

  constructor(partition: OwnedPartition, record: StoredRecord, deliveries: number, how: DeliveryHow) {
    this.partition = partition
    this.record = record
    this.deliveries = deliveries
    this.#how = how
    this.key = record.key === null ? undefined : record.key.toString()
    const read = readStored(record)
    try {
      this.message = messageOf<P>(record, read)
    } catch (error) {
      this.undecodable = error ?? new InvalidMessageError('The record cannot be decoded.')
      this.message = { ...read.identity, payload: (record.value ?? null) as P }
    }
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  /** Created lazily, because few messages become dead letters. Read again: a handler may have changed what its message shares. */
  get body(): ReceivedMessage {
    const { identity, fields } = readStored(this.record)
    const contentType = fields.get(WIRE_HEADERS.contentType)
    const contentEncoding = fields.get(WIRE_HEADERS.contentEncoding)
    return {
      ...identity,
      bytes: this.record.value ?? NO_BYTES,
      ...(contentType === undefined ? {} : { contentType }),
      ...(contentEncoding === undefined ? {} : { contentEncoding }),
    }
  }

  decodeAgain(): InboxMessage<P> {
    return messageOf<P>(this.record, readStored(this.record))
  }

  accept(how: Parameters<Delivery['accept']>[0] = {}): Promise<void> {
    return this.#once(() => this.#how.accepted(this, how))
  }

  /** The consumer keeps the delay: Kafka cannot. */
  retry({ stopping = false }: { readonly stopping?: boolean | undefined }): Promise<void> {
    return this.#once(async () => this.#how.returned(this, stopping))
  }

  /** Kafka keeps no rejected messages: the consumer publishes them as dead letters. */
  reject(): Promise<void> {
    return this.accept()
  }

  lose(reason: unknown): void {
    this.#lost.abort(reason)
  }

  #once(settle: () => Promise<void>): Promise<void> {
    if (this.#lost.isAborted) return Promise.resolve()
    this.#settled ??= settle()
    return this.#settled
  }
}

function readStored({ headers, timestamp }: StoredRecord): ReadRecord {
  return readHeaders(headers, timestamp)
}

function messageOf<P>({ value }: StoredRecord, { identity, fields }: ReadRecord): InboxMessage<P> {
  const payload = payloadOf(identity.id === '' ? 'without an id' : identity.id, value, fields)
  // A handler that changes the bytes must not change what was received.
  return { ...identity, payload: (payload instanceof Uint8Array ? payload.slice() : payload) as P }
}
