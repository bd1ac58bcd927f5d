import { BrokerUnavailableError, type Delivery, type OpenSource, type Source } from '@txbox/core'
import { LeaseExpiries, SharedConnection, pause, unlessAborted, within } from '@txbox/core/internal'
import type { Msg } from '@nats-io/transport-node'
import { hasNoResponders, violationIn } from '../connection/client-errors.ts'
import { deliveryInfoOf } from './acknowledged-subject.ts'
import { ConsumerConnection } from './consumer-connection.ts'
import type { CountOffsets } from './count-offsets.ts'
import { readDelivery } from './delivery-reader.ts'
import { NAK, NatsDelivery, type DeliveryOwner } from './nats-delivery.ts'
import type { SourceSettings } from './nats-source-options.ts'

/** How long giving back may take when the source is closed. */
const CLOSE_TIMEOUT_MS = 2000
/** The pause before a settlement is sent again. */
const RESEND_MS = 200

const LEASE_OVER = 'The delivery is no longer held: its ack_wait is over.'
const UNANSWERED = 'The delivery is no longer held: the server has not confirmed its return.'

type OpenHow<P> = Parameters<Source<P>['open']>[0]

/** An open consumer of JetStream. It connects again by itself: the deliveries outlive a broken connection. */
export class OpenConsumer<P> implements OpenSource<P>, DeliveryOwner<P> {
  readonly keepsDeliveries = true
  readonly #settings: SourceSettings
  readonly #how: OpenHow<P>
  readonly #offsets: CountOffsets
  readonly #connection: SharedConnection<ConsumerConnection>
  /** The deliveries that `receive` has not returned yet. */
  readonly #buffer: NatsDelivery<P>[] = []
  /** The deliveries that the consumer has. */
  readonly #unsettled = new Set<NatsDelivery<P>>()
  readonly #settlements = new Set<Promise<void>>()
  readonly #expiries = new LeaseExpiries<NatsDelivery<P>>(
    () => [...this.#unsettled, ...this.#buffer],
    (delivery) => this.#expired(delivery),
  )
  #wake = Promise.withResolvers<void>()
  /** The connection on which messages were asked for. */
  #asked: ConsumerConnection | undefined
  #receives = true
  /** The number of calls of `receive` in progress. */
  #receiving = 0
  #closed: Promise<void> | undefined
  #isDisconnected = false

  constructor(settings: SourceSettings, how: OpenHow<P>, offsets: CountOffsets) {
    this.#settings = settings
    this.#how = how
    this.#offsets = offsets
    const events = {
      received: (message: Msg, sentAfter: number): void => this.#received(message, sentAfter),
      changed: (): void => this.#wake.resolve(),
      warned: how.warned,
    }
    this.#connection = new SharedConnection(
      (lifetime) => ConsumerConnection.open(settings, events, lifetime),
      () => new BrokerUnavailableError(`The consumer '${settings.consumer}' of NATS disconnects.`),
    )
  }

  /** @throws {BrokerUnavailableError} when the consumer cannot be reached. */
  async connect(): Promise<void> {
    await this.#connection.get(new AbortController().signal)
  }

  async receive(limit: number, { signal }: { signal: AbortSignal }): Promise<readonly Delivery<P>[]> {
    const wake = (): void => this.#wake.resolve()
    signal.addEventListener('abort', wake)
    this.#receiving += 1
    try {
      return await this.#receive(limit, signal)
    } catch (error) {
      if (signal.aborted) return []
      throw error
    } finally {
      this.#receiving -= 1
      signal.removeEventListener('abort', wake)
      if (signal.aborted) void this.#cancel()
    }
  }

  stopReceiving(): void {
    this.#receives = false
    this.#wake.resolve()
    void this.#cancel()
  }

  close({ signal }: { signal?: AbortSignal | undefined } = {}): Promise<void> {
    this.#closed ??= this.#close(signal)
    return this.#closed
  }

  settle(delivery: NatsDelivery<P>, settlement: string): Promise<void> {
    const settling = this.#settle(delivery, settlement).finally(() => this.#settlements.delete(settling))
    this.#settlements.add(settling)
    return settling
  }

  ended(delivery: NatsDelivery<P>): void {
    if (this.#unsettled.delete(delivery)) this.#wake.resolve()
  }

  postponed({ arrived: { sequence, counted } }: NatsDelivery<P>, deliveries: number): void {
    this.#offsets.set(sequence, deliveries - counted)
  }

  async extend(delivery: NatsDelivery<P>): Promise<void> {
    const extendedAt = performance.now()
    const connection = await this.#connection.get(delivery.lost)
    const isOver = (): boolean => performance.now() >= delivery.expiresAt
    // After the end of the lease, the server would extend the lease of the consumer that has received the message by then.
    if (!isOver()) await connection.settle(delivery.arrived.reply, '+WPI')
    if (isOver()) delivery.lose(LEASE_OVER)
    else delivery.expiresAt = extendedAt + this.#settings.ackWaitMs
  }

  async #receive(limit: number, signal: AbortSignal): Promise<readonly NatsDelivery<P>[]> {
    while (!signal.aborted && this.#receives) {
      const deliveries = this.#take(limit)
      if (deliveries.length > 0) return deliveries
      const connection = (this.#asked = await this.#connection.get(signal))
      this.#wake = Promise.withResolvers()
      const room = Math.min(limit, this.#how.prefetch - this.#unsettled.size)
      if (this.#buffer.length > 0 || !this.#receives || signal.aborted) continue
      if (room > 0) connection.ask(room)
      await this.#wake.promise
      // The consumer decides when to connect again.
      if (connection.failure !== undefined) throw connection.failure
    }
    return []
  }

  #take(limit: number): readonly NatsDelivery<P>[] {
    // After this process stood still, the timer may be late.
    this.#expiries.catchUp()
    const deliveries = this.#buffer.splice(0, Math.min(limit, this.#how.prefetch - this.#unsettled.size))
    for (const delivery of deliveries) this.#unsettled.add(delivery)
    return deliveries
  }

  #received(raw: Msg, sentAfter: number): void {
    const info = deliveryInfoOf(raw.reply)
    // Nothing else is sent to the inbox of a request.
    if (info === undefined) return
    const { sequence, deliveries: counted, storedAt: time } = info
    const { subject, data, headers } = raw
    const message = { subject, data, headers, time }
    const delivery = new NatsDelivery<P>(
      { raw: message, reply: raw.reply!, sequence, counted },
      readDelivery<P>(message, this.#settings.functions),
      {
        deliveries: Math.max(1, counted + this.#offsets.of(sequence, counted)),
        expiresAt: sentAfter + this.#settings.ackWaitMs,
        owner: this,
      },
    )
    // The message was delivered long ago, such as before this process was suspended: another consumer may have it.
    if (performance.now() >= delivery.expiresAt) {
      this.#loseUnseen(delivery)
      return
    }
    this.#buffer.push(delivery)
    this.#expiries.expireAt(delivery.expiresAt)
    this.#wake.resolve()
  }

  /**
   * Sends a settlement again after the connection broke, as long as the lease lasts. The server does not mind a second acceptance, but a
   * second return would return the message from the consumer that has received it by now.
   */
  async #settle(delivery: NatsDelivery<P>, settlement: string): Promise<void> {
    while (!delivery.isLost && performance.now() < delivery.expiresAt) {
      let isSent = false
      try {
        const connection = await this.#connection.get(delivery.lost)
        isSent = true
        await connection.settle(delivery.arrived.reply, settlement)
        // The server also confirms a settlement that comes too late.
        if (performance.now() >= delivery.expiresAt) break
        this.ended(delivery)
        return
      } catch (error) {
        if (delivery.isLost || this.#isDisconnected) return
        if (violationIn(error) !== undefined) throw error
        // The consumer was deleted: there is nothing to settle.
        if (hasNoResponders(error)) delivery.lose('The delivery is no longer held: its consumer is gone.')
        else if (isSent && settlement.startsWith(NAK)) delivery.lose(UNANSWERED)
        else await pause(RESEND_MS, delivery.lost)
      }
    }
    // Without a confirmation in time, another consumer may have the message. A delivery that was lost stays as it is.
    delivery.lose(LEASE_OVER)
  }

  /** Takes back the request for messages, and returns those that nobody has received. */
  async #cancel(): Promise<void> {
    await this.#asked?.cancel()
    if (this.#receiving > 0 && this.#receives) return
    for (const delivery of this.#buffer.splice(0)) {
      // A message that cannot be given back, such as without the right to settle, is delivered again after its lease.
      this.#giveBack(delivery).catch(() => undefined)
    }
  }

  async #close(signal: AbortSignal | undefined): Promise<void> {
    this.#receives = false
    this.#wake.resolve()
    const held = [...this.#unsettled]
    const givingBack = within(this.#giveBackAll(held), CLOSE_TIMEOUT_MS, () => undefined, { ref: false })
    // Messages that are not given back before the signal is aborted are delivered again after their lease.
    await unlessAborted(givingBack, signal).catch(() => undefined)
    this.#expiries.stop()
    for (const delivery of [...held, ...this.#buffer.splice(0)]) {
      delivery.lose('The source is closed: the message was given back.')
    }
    this.#isDisconnected = true
    await this.#connection.close()
  }

  async #giveBackAll(held: readonly NatsDelivery<P>[]): Promise<void> {
    await this.#cancel()
    await Promise.allSettled(held.map((delivery) => this.#giveBack(delivery)))
    await Promise.allSettled(this.#settlements)
  }

  async #giveBack(delivery: NatsDelivery<P>): Promise<void> {
    await delivery.retry({ delayMs: 0 })
  }

  /** The lease of a delivery has ended. JetStream has counted it, also if `receive` has not returned it. */
  #expired(delivery: NatsDelivery<P>): void {
    const place = this.#buffer.indexOf(delivery)
    if (place < 0) delivery.lose(LEASE_OVER)
    else this.#buffer.splice(place, 1).forEach((unseen) => this.#loseUnseen(unseen))
  }

  /** `receive` has not returned the delivery, which JetStream has counted. */
  #loseUnseen(delivery: NatsDelivery<P>): void {
    this.#how.lost?.(delivery)
    delivery.lose(LEASE_OVER)
  }
}
