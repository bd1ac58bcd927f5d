import { LIMITS, NotInTransactionError, days, type Session } from '@txbox/core'
import type { ConnectedPorts, SharedTransaction } from '@txbox/core/ports'
import { OptionChecker, attemptsOnConflict, connectedPortsOf, oneLine } from '@txbox/core/internal'
import { BufferedChain, type ChainSettings, type Delivered } from './buffered-chain.ts'
import { refuseReentrance, takeTurn } from './chain-turns.ts'
import { messageOf } from './stored-message.ts'
import { checkedKey, storable, stored } from './stored.ts'
import type {
  BufferedDeadLetter,
  VersionBuffer,
  VersionBufferOptions,
  VersionBufferOutcome,
  VersionedMessage,
} from './version-buffer.ts'
import { MIN_VERSION, asKindOf, exactVersion, type Version } from '../version.ts'

/** The number of attempts for the buffer's own transactions when the database asks for a retry. */
const ATTEMPTS = 10

/** The maximum number of keys with overdue messages that are looked up at a time. */
const SWEEP_KEYS = 100

/**
 * Creates a version buffer for a consumer that must apply the changes of each key in strict order. A message whose
 * predecessor is missing is stored once, can be acknowledged, and is applied when the predecessor has been applied.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createVersionBuffer<Tx, P = unknown, V extends Version = number>(
  options: VersionBufferOptions<Tx, P, V>,
): VersionBuffer<Tx, P, V> {
  const where = 'createVersionBuffer'
  const check = new OptionChecker(where, options)
  check.known('database', 'consumer', 'apply', 'firstVersion', 'maxWaiting', 'maxAgeMs', 'onDeadLetter')
  const ports = connectedPortsOf(where, options.database)
  const apply = check.callback<ChainSettings['apply']>('apply')
  if (apply === undefined) throw check.wrong('apply', 'a function')
  const onDeadLetter = check.callback<Listener>('onDeadLetter')
  const settings: ChainSettings = {
    apply,
    consumer: check.text('consumer', { max: LIMITS.consumerCharacters }),
    firstVersion: storable(exactVersion(where, 'firstVersion', options.firstVersion ?? 0)),
    maxWaiting: check.integer('maxWaiting', { min: 1, max: LIMITS.batchMessages, default: 1000 }),
    maxAgeMs: check.milliseconds('maxAgeMs', { min: 1, max: LIMITS.durationMs, default: days(1) }),
  }
  return new StoringBuffer(ports, settings, onDeadLetter) as unknown as VersionBuffer<Tx, P, V>
}

type Listener = (event: BufferedDeadLetter<unknown, Version>) => unknown
type Message = VersionedMessage<unknown, Version>
type Outcome = VersionBufferOutcome<Version>

/** The version buffer. {@link VersionBuffer} documents the methods. */
class StoringBuffer implements VersionBuffer<unknown, unknown, Version> {
  readonly consumer: string
  readonly #ports: ConnectedPorts
  readonly #settings: ChainSettings
  readonly #onDeadLetter: Listener | undefined

  constructor(ports: ConnectedPorts, settings: ChainSettings, onDeadLetter: Listener | undefined) {
    this.consumer = settings.consumer
    this.#ports = ports
    this.#settings = settings
    this.#onDeadLetter = onDeadLetter
  }

  async process(tx: unknown, message: Message): Promise<Outcome> {
    const { key, change } = stored(message)
    // Bound at the call as well as in the turn: until then, another transaction may have begun on the connection.
    const called = await this.#ports.bind(tx)
    const { chain, result } = await this.#inTurn(called, key, async (transaction) => {
      const session = await this.#ports.bind(tx)
      if (transaction.hasEnded()) throw endedMeanwhile(this.consumer)
      const chain = this.#chain(session, tx, key)
      return { chain, result: await chain.deliver(change) }
    })
    this.#reportDeadLetters(chain)
    return outcomeOf(result, message.from)
  }

  async resync(key: string, version: Version): Promise<{ version: Version; followed: number }> {
    const exact = storable(exactVersion('resync', 'version', version))
    const result = await this.#onChain(checkedKey('resync', key), (chain) => chain.resync(exact))
    return { version: asKindOf('resync', version, result.version), followed: result.followed }
  }

  async sweep(options: { signal?: AbortSignal | undefined } = {}): Promise<{ deadLettered: number }> {
    const signal = new OptionChecker('sweep', options).known('signal').signal('signal')
    const { consumer, maxAgeMs } = this.#settings
    let deadLettered = 0
    for (;;) {
      const keys = await this.#inSession((session) =>
        this.#ports.versions.overdueKeys(session, consumer, maxAgeMs, SWEEP_KEYS),
      )
      for (const key of keys) {
        if (signal?.aborted === true) return { deadLettered }
        deadLettered += await this.#onChain(key, async (chain) => {
          await chain.expire()
          return chain.deadLettered.length
        })
      }
      if (keys.length < SWEEP_KEYS) return { deadLettered }
    }
  }

  async deadLetters(
    options: {
      key?: string | undefined
      limit?: number | undefined
      after?: { key: string; from: Version } | undefined
    } = {},
  ): Promise<
    readonly (BufferedDeadLetter<unknown, Version> & { readonly receivedAt: Date; readonly deadAt: Date })[]
  > {
    const check = new OptionChecker('deadLetters', options).known('key', 'limit', 'after')
    const { key, after } = options
    const filter = {
      consumer: this.consumer,
      key: key === undefined ? undefined : checkedKey('deadLetters', key),
      after: after && {
        key: checkedKey('deadLetters', after.key),
        from: storable(exactVersion('deadLetters', 'after.from', after.from)),
      },
      limit: check.integer('limit', { min: 1, max: 1000, default: 100 }),
    }
    const dead = await this.#inSession((session) => this.#ports.versions.dead(session, filter))
    return dead.map((change) => ({
      consumer: this.consumer,
      message: messageOf(change.key, change),
      reason: change.reason as BufferedDeadLetter['reason'],
      receivedAt: change.receivedAt,
      deadAt: change.deadAt,
    }))
  }

  async redrive(key: string, from: Version): Promise<Outcome | undefined> {
    const exact = storable(exactVersion('redrive', 'from', from))
    const ofKey = { consumer: this.consumer, key: checkedKey('redrive', key) }
    // Nothing comes before the lowest version, so the first dead letter of the key is the one with that version.
    const after = exact === MIN_VERSION ? undefined : { key: ofKey.key, from: exact - 1n }
    const filter = { ...ofKey, after, limit: 1 }
    const [dead] = await this.#inSession((session) => this.#ports.versions.dead(session, filter))
    if (dead?.from !== exact) return undefined
    const delivered = await this.#onChain(key, (chain) => chain.redrive(dead))
    return delivered && outcomeOf(delivered, from)
  }

  async discard(key: string, from: Version): Promise<boolean> {
    const exact = storable(exactVersion('discard', 'from', from))
    return this.#onChain(checkedKey('discard', key), (chain) => chain.discard(exact))
  }

  /** Works on a chain in a new transaction. Dead letters are reported after the commit. */
  async #onChain<R>(key: string, work: (chain: BufferedChain) => Promise<R>): Promise<R> {
    // This is checked before a connection is taken: the caller may hold the last connection of the pool.
    refuseReentrance(this.#place(key))
    const { chain, result } = await this.#inTransaction((tx, session) =>
      this.#inTurn(session, key, async () => {
        const chain = this.#chain(session, tx, key)
        return { chain, result: await work(chain) }
      }),
    )
    this.#reportDeadLetters(chain)
    return result
  }

  async #inTurn<R>(
    session: Session,
    key: string,
    work: (transaction: SharedTransaction) => Promise<R>,
  ): Promise<R> {
    const transaction = await this.#ports.versions.transactionOf(session)
    return takeTurn(transaction.connection, this.#place(key), () => work(transaction))
  }

  #chain(session: Session, tx: unknown, key: string): BufferedChain {
    return new BufferedChain(this.#ports, this.#settings, { session, tx, key })
  }

  #place(key: string): Parameters<typeof refuseReentrance>[0] {
    return { database: this.#ports, consumer: this.consumer, key }
  }

  #inSession<R>(work: (session: Session) => Promise<R>): Promise<R> {
    return this.#inTransaction((_tx, session) => work(session))
  }

  #inTransaction<R>(work: (tx: unknown, session: Session) => Promise<R>): Promise<R> {
    const conflicts = { isConflict: (error: unknown) => this.#ports.isConflict(error) }
    return attemptsOnConflict(() => this.#ports.transact(work, {}), conflicts, { attempts: ATTEMPTS })
  }

  /**
   * Calls `onDeadLetter`, and ignores its errors. The async function catches both an exception of the callback and the
   * rejection of an async callback.
   */
  #reportDeadLetters(chain: BufferedChain): void {
    for (const event of chain.deadLettered) {
      void (async () => this.#onDeadLetter?.(event))().catch(() => undefined)
    }
  }
}

function endedMeanwhile(consumer: string): NotInTransactionError {
  return new NotInTransactionError(
    `version buffer '${oneLine(consumer)}': the transaction ended while the call waited for its turn. Await every call before ` +
      'you commit or roll back. Nothing was written.',
  )
}

function outcomeOf({ status, version, followed }: Delivered, sample: Version): Outcome {
  const at = asKindOf('version buffer', sample, version)
  return status === 'applied' ? { status, version: at, followed } : { status, version: at }
}
