import { InvalidOptionError, LIMITS, hours, type DeadLetters, type Session } from '@txbox/core'
import type {
  ConnectedPorts,
  QueueReceipt,
  QueueStore,
  QueueMessage,
  ReceiveRequest,
} from '@txbox/core/ports'
import {
  OptionChecker,
  deadLettersOf,
  explanationOf,
  observeTables,
  oneLine,
  reasonOf,
} from '@txbox/core/internal'
import { GatheredReceipts } from './gathered-receipts.ts'
import { POLL_INTERVALS, longPoll } from './long-poll.ts'
import { MessageSender, type SenderSettings } from './message-sender.ts'
import type { Queue, Receipt, ReceiveOptions, Received, ReleaseOptions } from './queue.ts'
import { expired, readReceipt } from './receipts.ts'
import { checkReceiveOptions } from './receive-options.ts'
import { receivedMessage } from './received-message.ts'
import { WakeUpCall } from './wake-up-call.ts'

/**
 * A statement without an answer within this time has failed. The time is long because a settlement may wait for the
 * transaction of another receiver that settles the same message.
 */
const STATEMENT_TIMEOUT_MS = 60_000
/** A receive waits for no lock, and its connection may be dead without a sign: nothing is received until this time is over. */
const RECEIVE_TIMEOUT_MS = 20_000
/** The property of a queue that receives. The symbol is registered, so that another installed copy recognizes the queue. */
export const storedQueueKey = Symbol.for('txbox.queue')
const PURGE_ROWS = 1000
/** The queues, or the databases of queues, whose connection to listen on has been reported as failed. */
const reported = new WeakSet<object>()
const MAX_VISIBILITY_MS = hours(12)

interface StoredQueueSettings extends SenderSettings {
  readonly visibilityTimeoutMs: number
  readonly maxReceives: number
}

/** The queue that also receives messages. {@link Queue} documents its methods. */
export class StoredQueue<Tx, P> extends MessageSender<P> implements Queue<Tx, P> {
  readonly [storedQueueKey] = true
  readonly deadLetters: DeadLetters
  readonly store: QueueStore
  readonly wakeUpCall: WakeUpCall
  readonly settings: StoredQueueSettings
  readonly #ports: ConnectedPorts
  /** Settlements outside of any transaction. */
  readonly #settlements = new GatheredReceipts((receipts) => this.store.settle(undefined, receipts))
  /** Settlements in transactions that txbox itself opened, by transaction. */
  readonly #settlementsIn = new WeakMap<Session, GatheredReceipts>()
  /**
   * Extensions, by visibility timeout. The consumers of a queue all use the same timeout, so there is usually one
   * entry.
   */
  readonly #extensions = new Map<number, GatheredReceipts>()
  #checked = false

  constructor(ports: ConnectedPorts, settings: StoredQueueSettings) {
    super(ports, settings)
    this.settings = settings
    this.#ports = ports
    this.store = ports.queue({
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      receiveTimeoutMs: RECEIVE_TIMEOUT_MS,
    })
    this.deadLetters = deadLettersOf(ports, { queue: settings.name })
    const listens = settings.notify !== false && ports.listenToQueue !== undefined
    const isDefault = settings.notify === 'auto'
    this.wakeUpCall = new WakeUpCall(
      listens ? (sleeper) => ports.listenToQueue!(settings.name, sleeper, { isDefault }) : undefined,
      (error) => this.#notListening(error),
    )
  }

  async receive(options: ReceiveOptions = {}): Promise<readonly Received<P>[]> {
    const { waitMs, signal, ...request } = checkReceiveOptions(options, this.settings.visibilityTimeoutMs)
    if (signal?.aborted === true) return []
    const waiting = { waitMs, signal, ...POLL_INTERVALS }
    const received = await longPoll(() => this.look(request), this.wakeUpCall, waiting)
    return received.map((stored) => receivedMessage<P>(this.name, stored))
  }

  async delete(received: Receipt, options: { readonly tx?: Tx } = {}): Promise<void> {
    const where = 'delete'
    new OptionChecker(where, options).known('tx')
    const receipt = readReceipt(where, this.name, received)
    if (!('tx' in options))
      return this.#alone(where, async (store) => (await store.settle(undefined, [receipt]))[0])
    if (options.tx === undefined) {
      throw new InvalidOptionError(
        `${where}: the option 'tx' is undefined, so the message would be deleted although the work may roll back. Pass the open ` +
          'transaction, or leave the option out.',
      )
    }
    if (!(await this.settleIn(options.tx, receipt))) throw expired(where, this.name)
  }

  async changeVisibility(received: Receipt, visibilityTimeoutMs: number): Promise<void> {
    const where = 'changeVisibility'
    const check = new OptionChecker(where, { visibilityTimeoutMs })
    const ms = check.milliseconds('visibilityTimeoutMs', { min: 0, max: MAX_VISIBILITY_MS, default: NaN })
    const receipt = readReceipt(where, this.name, received)
    await this.#alone(where, async (store) =>
      ms === 0
        ? store.giveBack(receipt, { delayMs: 0, error: undefined, counted: true })
        : (await store.extend([receipt], ms))[0],
    )
  }

  async release(received: Receipt, options: ReleaseOptions = {}): Promise<void> {
    const where = 'release'
    const check = new OptionChecker(where, options).known('delayMs', 'error', 'counted')
    const giveback = {
      delayMs: check.milliseconds('delayMs', { min: 0, max: LIMITS.durationMs, default: 0 }),
      counted: check.flag('counted', true),
      error: options.error === undefined ? undefined : explanationOf(options.error),
    }
    const receipt = readReceipt(where, this.name, received)
    await this.#alone(where, (store) => store.giveBack(receipt, giveback))
  }

  async bury(received: Receipt, options: { readonly error: unknown }): Promise<void> {
    const where = 'bury'
    const check = new OptionChecker(where, options).known('error')
    if (options.error === undefined) throw check.wrong('error', 'the reason, which the dead letter shows')
    const receipt = readReceipt(where, this.name, received)
    const error = explanationOf(options.error)
    await this.#alone(where, (store) => store.bury(this.name, receipt, error))
  }

  async purge(): Promise<{ readonly removed: number }> {
    await this.ready()
    let removed = 0
    for (let more = true; more;) {
      const step = await this.store.purge(this.name, PURGE_ROWS)
      removed += step.removed
      more = step.more
    }
    return { removed }
  }

  /** Receives once, without waiting. */
  async look(request: Omit<ReceiveRequest, 'queue' | 'maxReceives'>): Promise<readonly QueueMessage[]> {
    await this.ready()
    return this.store.receive({ ...request, queue: this.name, maxReceives: this.settings.maxReceives })
  }

  /** Settles in the caller's transaction. @returns whether the receipt was valid. */
  async settleIn(tx: unknown, receipt: QueueReceipt): Promise<boolean> {
    return (await this.store.settle(await this.#ports.bind(tx), [receipt]))[0] === true
  }

  /**
   * Settles in a transaction that txbox opened. Settlements that arrive together share one statement.
   *
   * @returns whether the receipt was valid.
   */
  settleInSession(session: Session, receipt: QueueReceipt): Promise<boolean> {
    let settlements = this.#settlementsIn.get(session)
    if (settlements === undefined) {
      settlements = new GatheredReceipts(async (receipts) =>
        this.store.settle(await this.#ports.bind(session), receipts),
      )
      this.#settlementsIn.set(session, settlements)
    }
    return settlements.add(receipt)
  }

  /**
   * Settles outside of a transaction. Settlements that arrive together share one statement. The caller must not settle
   * a receipt twice concurrently.
   *
   * @returns whether the receipt was valid.
   */
  settle(receipt: QueueReceipt): Promise<boolean> {
    return this.#settlements.add(receipt)
  }

  /** Extensions that arrive together share one statement. @returns whether the receipt was valid. */
  extend(receipt: QueueReceipt, visibilityTimeoutMs: number): Promise<boolean> {
    let extensions = this.#extensions.get(visibilityTimeoutMs)
    if (extensions === undefined) {
      extensions = new GatheredReceipts((receipts) => this.store.extend(receipts, visibilityTimeoutMs))
      this.#extensions.set(visibilityTimeoutMs, extensions)
    }
    return extensions.add(receipt)
  }

  /**
   * Restarts the visibility timeout, also when it is over, if no other receiver has taken the message.
   *
   * @param tx the transaction to do this in; `undefined` does it outside of any.
   * @returns whether the receipt is valid now.
   */
  async renew(receipt: QueueReceipt, tx?: unknown): Promise<boolean> {
    const session = tx === undefined ? undefined : await this.#ports.bind(tx)
    return this.store.renew(session, receipt, this.settings.visibilityTimeoutMs)
  }

  /**
   * Lets the telemetry have the gauges of the tables.
   *
   * @returns a function that ends this. Its promise never rejects.
   */
  observe(): () => Promise<void> {
    return observeTables(this.#ports, this.settings.telemetry)
  }

  /** Checks once per queue object that the tables have the revision that this version of txbox needs. */
  async ready(): Promise<void> {
    if (!this.#checked) await this.#ports.checkSchema()
    this.#checked = true
  }

  /**
   * Settles outside of a transaction.
   *
   * @param settle returns whether the receipt was valid.
   * @throws {ReceiptExpiredError} when it was not.
   */
  async #alone(where: string, settle: (store: QueueStore) => Promise<boolean | undefined>): Promise<void> {
    await this.ready()
    const valid = await settle(this.store)
    this.wakeUpCall.wake()
    if (valid !== true) throw expired(where, this.name)
  }

  /**
   * Emits a process warning for the first failure of the listening connection. A consumer keeps its deliveries: until
   * the connection is replaced, it only polls.
   */
  #notListening(error: unknown): void {
    // By default, all queues of a database listen on one connection.
    const concerned = this.settings.notify === 'auto' ? this.#ports : this
    if (reported.has(concerned)) return
    reported.add(concerned)
    const ofWhat = concerned === this ? `the queue '${oneLine(this.name)}'` : 'queues'
    process.emitWarning(
      `The connection that listens for messages of ${ofWhat} has failed. It is replaced; until then, receivers only poll: ` +
        reasonOf(error),
      { type: 'TxboxWarning', code: 'TXBOX_QUEUE_NOT_LISTENING' },
    )
  }
}
