import {
  InvalidMessageError,
  LeaseLostError,
  type InboxMessage,
  type ReceivedMessage,
  type Session,
} from '@txbox/core'
import type { LocalMessage } from '@txbox/core/ports'
import { CAUSATION_HEADER, LazyAbort, copyBytes, decodePayload } from '@txbox/core/internal'
import type { LocalInboxMessage } from '../options/local-message.ts'
import type { WindowRow } from './key-lane.ts'
import type { LocalDelivery } from './local-delivery-port.ts'
import { refusalOf, suspectedRefusal } from './local-refusals.ts'
import type { Settling } from './gathered-settlements.ts'

/** A message that comes back uncounted within this time waits in the window; a longer pause is kept by the table. */
const LONGEST_WAIT_MS = 1000

/** The end of a delivery. `'unknown'`: the row must be read again. */
export type DeliveryEnd =
  | { readonly how: 'settled' }
  | { readonly how: 'unknown' }
  | { readonly how: 'back'; readonly afterMs: number }

/** The work on a shard that a delivery belongs to. */
export interface DeliveryOwner {
  /** Whether this process may still act as the owner of the shard. */
  readonly isTrusted: boolean
  /** Asks whether the server is still the one from which the row was read. */
  isCurrent(row: WindowRow): Promise<boolean>
  lock(session: Session, row: WindowRow): Promise<boolean>
  /** @throws {TransactionAbortedError} when the row was not removed. */
  remove(session: Session, row: WindowRow): Promise<void>
  /** Resolves when the row is settled, with the rows that must be parked behind it, or the lease is lost. */
  settle(row: WindowRow, settling: Settling): Promise<void>
  /** Called once. From then on the next message of the key may begin. */
  ended(delivery: MessageDelivery, end: DeliveryEnd): void
}

/** One message of a local consumer that was handed to the handler's engine. */
export class MessageDelivery<P = unknown> implements LocalDelivery<P> {
  readonly message: LocalInboxMessage<P>
  declare readonly undecodable?: Error
  readonly row: WindowRow
  readonly key: string | undefined
  readonly deliveries: number
  readonly isSuspect: boolean
  readonly #stored: LocalMessage
  readonly #owner: DeliveryOwner
  readonly #lost = new LazyAbort()
  #end: DeliveryEnd = { how: 'unknown' }
  #wasTried = false
  #isSettling = false
  #hasLeft = false

  constructor(row: WindowRow, owner: DeliveryOwner, { isSuspect }: { readonly isSuspect: boolean }) {
    const { message, undecodable } = decoded<P>(row.message)
    this.message = message
    if (undecodable !== undefined) this.undecodable = undecodable
    this.row = row
    this.key = row.lane.key
    this.deliveries = row.message.attempts + 1
    this.isSuspect = isSuspect
    this.#stored = row.message
    this.#owner = owner
  }

  get body(): ReceivedMessage {
    const { payload: bytes, contentType } = this.#stored
    const { id, type, headers, correlationId, time } = this.message
    return { id, type, headers, correlationId, time, bytes, contentType }
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  onLost(listener: () => void): void {
    this.#lost.onAbort(listener)
  }

  decodeAgain(): InboxMessage<P> {
    return decoded<P>(this.#stored).message
  }

  /** A try that failed may have lost its connection because the server was replaced. */
  mayBegin(): boolean | Promise<boolean> {
    const isRetry = this.#wasTried
    this.#wasTried = true
    return isRetry ? this.#owner.isCurrent(this.row) : !this.row.isVoid
  }

  lockInSession(session: Session): Promise<boolean> {
    if (this.#lost.isAborted || !this.#owner.isTrusted) return Promise.resolve(false)
    return this.#owner.lock(session, this.row)
  }

  removeInSession(session: Session): Promise<void> {
    return this.#owner.remove(session, this.row)
  }

  committed(): void {
    this.#end = { how: 'settled' }
  }

  accept(): Promise<void> {
    return this.#settle({ accepted: this.#stored })
  }

  /**
   * A message that comes back uncounted and at once, because of an outage or a stop or because an earlier message of its key has
   * failed, remains where it is.
   */
  async retry(how: {
    readonly delayMs: number
    readonly error: unknown
    readonly counted: boolean
  }): Promise<void> {
    const { delayMs, error, counted } = how
    if (this.#isOver) return
    const { attempts } = this.#stored
    if (!counted && this.isSuspect) {
      return this.#settle({ refused: suspectedRefusal(this.#stored, attempts) })
    }
    if (!counted && delayMs <= LONGEST_WAIT_MS) this.#end = { how: 'back', afterMs: delayMs }
    else {
      const refusal = { error, attempts: attempts + (counted ? 1 : 0), retryInMs: delayMs }
      await this.#settle({ refused: refusalOf(this.#stored, refusal) })
    }
  }

  reject({
    error,
    deliveries,
  }: {
    readonly error: unknown
    readonly deliveries?: number | undefined
  }): Promise<void> {
    // A message that cannot be read was not handled.
    const attempts = this.undecodable === undefined ? (deliveries ?? this.deliveries) : this.#stored.attempts
    return this.#settle({ refused: refusalOf(this.#stored, { error, attempts, retryInMs: undefined }) })
  }

  skip(): void {
    this.#end = { how: 'unknown' }
  }

  left(): void {
    if (this.#hasLeft) return
    this.#hasLeft = true
    this.#owner.ended(this, this.#end)
  }

  /** Called when the lease is lost, or the source is closed. */
  lose(): void {
    this.#lost.abort(
      new LeaseLostError(
        'The lease of the shard is lost: another process may handle its messages from now on.',
      ),
    )
  }

  get #isOver(): boolean {
    return this.#lost.isAborted || this.#isSettling || this.#end.how !== 'unknown'
  }

  /** Only the first settlement counts. After a loss, nothing is settled. */
  async #settle(settling: Settling): Promise<void> {
    if (this.#isOver) return
    this.#isSettling = true
    await this.#owner.settle(this.row, settling)
    this.#end = { how: 'settled' }
  }
}

interface Decoded<P> {
  readonly message: LocalInboxMessage<P>
  readonly undecodable?: Error
}

/** Decodes a message into objects that no handler has had. */
function decoded<P>(stored: LocalMessage): Decoded<P> {
  const { id, type, headers, correlationId, createdAt, key, topic } = stored
  const { payload, undecodable } = payloadOf(stored)
  const causationId = headers[CAUSATION_HEADER]
  const message: LocalInboxMessage = {
    id,
    ...(type !== undefined && { type }),
    headers: { ...headers },
    ...(correlationId !== undefined && { correlationId }),
    ...(causationId !== undefined && { causationId }),
    time: new Date(createdAt),
    key,
    topic,
    payload: payload instanceof Uint8Array ? copyBytes(payload) : payload,
  }
  return { message: message as LocalInboxMessage<P>, ...(undecodable !== undefined && { undecodable }) }
}

function payloadOf(stored: LocalMessage): { readonly payload: unknown; readonly undecodable?: Error } {
  const { payload, undecodable } = stored
  if (undecodable !== undefined) return { payload, undecodable: new InvalidMessageError(undecodable) }
  try {
    return { payload: decodePayload(stored, 'txbox') }
  } catch (error) {
    return { payload, undecodable: error as InvalidMessageError }
  }
}
