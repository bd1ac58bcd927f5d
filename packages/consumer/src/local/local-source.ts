import { isTxboxError, type Delivery, type OpenSource, type Source } from '@txbox/core'
import { oneLine, reasonOf } from '@txbox/core/internal'
import type { LocalSettings } from '../options/local-settings.ts'
import { joinLocalHub } from './local-hub.ts'
import type { LocalHeldShard, LocalJoin, LocalListener, LocalMembership } from './local-membership.ts'
import { LocalShardWork, type ShardTools } from './local-shard.ts'
import { typeName } from './local-refusals.ts'
import { SharedSettlements } from './shared-settlements.ts'
import { SuspectLane } from './suspect-lane.ts'

export interface LocalSource extends Source {
  /** Whether nothing is being done that could make a message due: neither a handler nor a statement of the source. */
  isQuiet(): boolean
}

/** The source of a local consumer: the messages of the shards that this process holds. */
export function localSource(settings: LocalSettings): LocalSource {
  const { ports } = settings
  let opened: OpenLocalSource | undefined
  return {
    name: `local ${oneLine(settings.consumer)}`,
    system: 'txbox',
    traits: {
      delays: true,
      countsDeliveries: true,
      keepsRejected: true,
      ordersKeys: true,
      settlesInTransaction: true,
      leaseMs: undefined,
    },
    async open({ warned, deadLettered }) {
      const open = new OpenLocalSource(settings, { warned, deadLettered })
      await open.join((join) => joinLocalHub(ports, join))
      opened = open
      return open
    },
    isQuiet: () => opened?.isQuiet !== false,
  }
}

/** What the source uses of the settings of its consumer. */
type SourceSettings = Pick<
  LocalSettings,
  'consumer' | 'batch' | 'retry' | 'handleTimeoutMs' | 'leaseMs' | 'pollMs' | 'listens'
> & {
  readonly handlers: ReadonlyMap<string, unknown>
  readonly log: { readonly events: Pick<LocalSettings['log']['events'], 'emit'> }
}

type Reports = Pick<Parameters<Source['open']>[0], 'warned' | 'deadLettered'>

/** Hands out the messages of all shards of a local consumer that this process holds. */
export class OpenLocalSource implements OpenSource, LocalListener {
  readonly keepsDeliveries = true
  readonly #settings: SourceSettings
  readonly #how: Reports
  readonly #shards = new Map<LocalHeldShard, LocalShardWork>()
  readonly #suspectLane = new SuspectLane()
  readonly #unhandled = new Set<string | undefined>()
  /** Aborted when the time to leave is over. */
  readonly #leavesNow = new AbortController()
  #membership: LocalMembership | undefined
  #settlements: SharedSettlements | undefined
  /** Shards that were acquired while the membership was made. */
  #early: LocalHeldShard[] = []
  #leaving: Promise<void> | undefined
  #failure: { readonly error: unknown } | undefined
  /** Ends the wait for messages. */
  #wake: () => void = () => undefined
  /** The shard that is asked first the next time. */
  #turn = 0

  constructor(settings: SourceSettings, how: Reports) {
    this.#settings = settings
    this.#how = how
  }

  /** Joins the hub, and lets messages be tried at once that waited for a handler which this consumer has. */
  async join(joinHub: (join: LocalJoin) => Promise<LocalMembership>): Promise<void> {
    const { consumer, handlers, leaseMs, listens, pollMs } = this.#settings
    const types = [...handlers.keys()]
    const membership = await joinHub({ consumer, types, leaseMs, pollMs, listens, listener: this })
    this.#membership = membership
    for (const held of this.#early.splice(0)) this.acquired(held)
    try {
      await membership.store.handled(consumer, types)
    } catch (error) {
      await this.close({ signal: AbortSignal.abort() })
      throw error
    }
  }

  async receive(limit: number, { signal }: { readonly signal: AbortSignal }): Promise<readonly Delivery[]> {
    while (!signal.aborted && this.#leaving === undefined) {
      const failure = this.#failure
      this.#failure = undefined
      if (failure !== undefined) throw failure.error
      const deliveries = this.#take(limit)
      if (deliveries.length > 0) return deliveries
      const { promise, resolve } = Promise.withResolvers<void>()
      const wake = (): void => resolve()
      this.#wake = wake
      signal.addEventListener('abort', wake)
      await promise
      signal.removeEventListener('abort', wake)
    }
    return []
  }

  get isQuiet(): boolean {
    return [...this.#shards.values()].every((shard) => shard.isQuiet)
  }

  stopReceiving(): void {
    this.#leaving ??= this.#membership?.leave(this.#leavesNow.signal)
    this.#wake()
  }

  async close(how: { readonly signal?: AbortSignal | undefined } = {}): Promise<void> {
    this.stopReceiving()
    const now = (): void => this.#leavesNow.abort()
    if (how.signal?.aborted === true) now()
    how.signal?.addEventListener('abort', now, { once: true })
    await this.#leaving
    for (const shard of this.#shards.values()) shard.lose()
    this.#shards.clear()
  }

  acquired(held: LocalHeldShard): void {
    const membership = this.#membership
    if (membership === undefined) this.#early.push(held)
    else this.#shards.set(held, new LocalShardWork(held, this.#toolsOf(membership)))
  }

  lost(held: LocalHeldShard): void {
    this.#shards.get(held)?.lose()
    this.#shards.delete(held)
  }

  found(held: LocalHeldShard, what: { readonly waiting: boolean; readonly due: boolean }): void {
    this.#shards.get(held)?.found(what)
  }

  /** While the database cannot be reached, nothing is handed out; another error is only reported. */
  failed(error: unknown): void {
    if (this.#leaving !== undefined) return
    if (isTxboxError(error) && error.code === 'TXBOX_DATABASE_UNAVAILABLE') {
      this.#failure = { error }
      this.#wake()
    } else this.#report(error)
  }

  notListening(error: unknown): void {
    this.#how.warned?.(
      `The local consumers of this process do not listen for new messages, and poll until they can: ${reasonOf(error)}`,
    )
  }

  /** Takes turns, so that no shard waits for another one that always has messages. */
  #take(limit: number): readonly Delivery[] {
    const shards = [...this.#shards.values()]
    const deliveries: Delivery[] = []
    for (let n = 0; n < shards.length && deliveries.length < limit; n++) {
      this.#turn = (this.#turn + 1) % shards.length
      deliveries.push(...shards[this.#turn]!.take(limit - deliveries.length))
    }
    return deliveries
  }

  #toolsOf(membership: LocalMembership): ShardTools {
    const { batch, retry, handleTimeoutMs, handlers } = this.#settings
    return {
      store: membership.store,
      settlements: (this.#settlements ??= new SharedSettlements(membership.store)),
      suspectLane: this.#suspectLane,
      handleTimeoutMs,
      attempts: retry.attempts,
      runLength: batch?.maxSize ?? 1,
      handles: (type) => type !== undefined && handlers.has(type),
      unhandled: (type) => this.#warnUnhandled(type),
      news: () => this.#wake(),
      failed: (error) => this.failed(error),
      reported: (error) => this.#report(error),
      taken: (held) => membership.taken(held),
      gaveUp: ({ message, deliveries }, error) =>
        this.#how.deadLettered?.({ message, deliveries: deliveries - 1, error }),
      handled: () => membership.busy(1),
    }
  }

  #report(error: unknown): void {
    this.#settings.log.events.emit('error', { error, source: `local ${oneLine(this.#settings.consumer)}` })
  }

  #warnUnhandled(type: string | undefined): void {
    if (this.#unhandled.has(type)) return
    this.#unhandled.add(type)
    this.#how.warned?.(
      `There is no handler for ${typeName(type)}. Its messages wait, and with them the later messages of their keys. Add a handler, ` +
        "or end the subscription by 'txbox consumers remove' if no handler will come.",
    )
  }
}
