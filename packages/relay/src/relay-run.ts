import { isTxboxError } from '@txbox/core'
import type { WakeUps } from '@txbox/core/ports'
import {
  Deadline,
  GAUGES_END_MS,
  LeaseKeeper,
  PacedSleeper,
  PollPace,
  RELAY_LEASES,
  pause,
  systemClock,
  within,
  type LeaseGroup,
} from '@txbox/core/internal'
import { drain } from './polling/drain.ts'
import { EmptyShards } from './polling/empty-shards.ts'
import { Poller, type Counts } from './polling/poller.ts'
import type { RelaySettings } from './options/relay-options.ts'
import type { RelayGauges, RunGauges } from './relay-gauges.ts'
import { PublisherOutage } from './turns/publisher-outage.ts'
import { ShardTurns } from './turns/shard-turns.ts'
import { SuspectLane } from './turns/suspect-lane.ts'
import { TurnLanes } from './turns/turn-lanes.ts'
import type { TurnTools } from './turns/turn-tools.ts'

/**
 * The minimum timeout of statements for a busy database. Otherwise the timeout is the lease: a later answer would be
 * useless.
 */
const MIN_TIMEOUT_MS = 5000

/** Of its pool, a relay uses one connection for its leases, and the others to read and to settle. */
const RELAY_CONNECTIONS = 4

/** One run of a relay, from start to stop: a keeper of leases, a poller, and lanes that publish, side by side. */
export class RelayRun {
  readonly #settings: RelaySettings
  readonly #gauges: RelayGauges
  readonly #keeper: LeaseKeeper
  readonly #leases: LeaseGroup
  readonly #lanes: TurnLanes
  readonly #poller: Poller
  readonly #tools: TurnTools
  readonly #empty = new EmptyShards()
  readonly #pace: PollPace
  /** Ends the pauses of the loops. */
  readonly #stopping = new AbortController()
  /** Aborts the publisher's signal. */
  readonly #force = new AbortController()
  /** Ends the renewal of leases, which continues while a batch is in flight. */
  readonly #unneeded = new AbortController()
  #keeping: Promise<void> = Promise.resolve()
  #working: Promise<unknown> = Promise.resolve()
  #unuse: (() => void) | undefined
  #runGauges: RunGauges | undefined
  #wakeUps: WakeUps | undefined
  /** When the publisher's signal is aborted, and when the leases are released. */
  readonly #forces = new Deadline()
  readonly #gives = new Deadline()
  #graceMs = 1000
  #stopped: Promise<void> | undefined
  readonly #broken = new AbortController()
  readonly #onError = (error: unknown): void => this.#failed(error)

  constructor(settings: RelaySettings, gauges: RelayGauges) {
    this.#settings = settings
    this.#gauges = gauges
    this.#pace = new PollPace(settings.pollMs.polling)
    const { leases, owner } = settings
    this.#keeper = new LeaseKeeper(leases, {
      owner,
      names: RELAY_LEASES,
      clock: systemClock,
      failed: this.#onError,
    })
    this.#leases = this.#addShards()
    const store = settings.ports.relay({ statementTimeoutMs: Math.max(settings.leaseMs, MIN_TIMEOUT_MS) })
    const shared = {
      store,
      leases: this.#leases,
      empty: this.#empty,
      pace: this.#pace,
      outage: new PublisherOutage(),
      onError: this.#onError,
    }
    this.#lanes = new TurnLanes({ ...shared, ordering: settings.publisher.ordering })
    this.#poller = new Poller({ ...shared, lanes: this.#lanes, signal: this.#stopping.signal })
    this.#tools = {
      ...shared,
      lanes: this.#lanes,
      poller: this.#poller,
      suspectLane: new SuspectLane(),
      publisher: settings.publisher,
      publishTimeoutMs: settings.publishTimeoutMs,
      retry: settings.retry,
      events: settings.events,
      telemetry: settings.telemetry,
      limits: { messages: settings.batchSize, bytes: settings.batchBytes },
      lookAfterMs: settings.pollMs.listening.max,
      healAfterMs: settings.healAfterMs,
      signal: this.#force.signal,
    }
  }

  get counts(): Counts {
    return this.#poller.counts
  }

  /** Aborted with the reason when the relay cannot continue. */
  get broken(): AbortSignal {
    return this.#broken.signal
  }

  async start(): Promise<void> {
    const { ports } = this.#settings
    await ports.checkSchema()
    this.#unuse = ports.useConnections?.('relay', RELAY_CONNECTIONS)
    this.#wakeUps = this.#listen()
    this.#runGauges = this.#gauges.begin(() => this.#leases.held.length)
    this.#keeping = this.#keepLeases()
    this.#working = Promise.all([this.#poller.run(), this.#lanes.run()])
  }

  /**
   * Resolves within `timeoutMs`, even if a call hangs: shortly before the deadline the publisher's signal is aborted,
   * and shortly afterwards the leases are released, even if the publisher continues. Another call with a shorter time ends
   * all of them earlier.
   */
  stop(timeoutMs: number): Promise<void> {
    this.#graceMs = Math.min(this.#graceMs, timeoutMs / 3)
    this.#forces.within(timeoutMs - this.#graceMs)
    this.#gives.within(timeoutMs - this.#graceMs / 2)
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  async #stop(): Promise<void> {
    void this.#forces.passed.then(() => this.#force.abort())
    const tablesEnded = this.#runGauges?.endTables()
    this.#stopping.abort()
    this.#pace.stop()
    this.#wakeUps?.close()
    this.#lanes.close()
    const finished = this.#finish().catch(this.#onError)
    await this.#gives.waitFor(finished)
    this.#forces.clear()
    this.#force.abort()
    this.#unneeded.abort()
    this.#runGauges?.endOwn()
    const closed = Promise.all([this.#keeper.close(), tablesEnded])
    // A timer that the deadline outlives.
    const closing = within(closed, GAUGES_END_MS, () => undefined, { ref: false })
    await this.#gives.waitFor(closing, this.#graceMs / 2)
    this.#gives.clear()
    this.#unuse?.()
  }

  /** @param given ends the drain early. */
  async drained(given?: AbortSignal): Promise<void> {
    const { signal } = this.#stopping
    await drain({
      leases: this.#leases,
      lanes: this.#lanes,
      poller: this.#poller,
      empty: this.#empty,
      pollMs: this.#settings.pollMs.polling.min,
      signal: given === undefined ? signal : AbortSignal.any([signal, given]),
      onError: this.#onError,
    })
  }

  #listen(): WakeUps | undefined {
    const { ports, wakeup, log, pollMs } = this.#settings
    if (wakeup === 'poll') return undefined
    const isDefault = wakeup === 'auto'
    const report = isDefault ? (error: unknown): void => log.notListening(error) : this.#onError
    return ports.listen?.(new PacedSleeper(this.#pace, pollMs, report), { isDefault })
  }

  #addShards(): LeaseGroup {
    const { events, leaseMs, telemetry } = this.#settings
    const group = this.#keeper.add({
      path: '',
      leaseMs,
      events: {
        acquired: (held) => {
          events.emit('lease-acquired', { shard: held.shard, term: held.lease.term })
          this.#lanes.open(held, new ShardTurns(held, this.#tools))
        },
        lost: (held, reason) => {
          void this.#lanes.abandon(held).then(() => group.rest(held))
          events.emit('lease-lost', { shard: held.shard, term: held.lease.term, reason })
          telemetry()?.count('txbox.relay.leases.lost', 1, { reason })
        },
      },
    })
    return group
  }

  async #finish(): Promise<void> {
    await this.#keeper.stop()
    await this.#working
    await this.#lanes.finish()
    this.#unneeded.abort()
    await this.#keeping
  }

  async #keepLeases(): Promise<void> {
    const { signal } = this.#unneeded
    while (!signal.aborted) {
      await this.#keeper.round()
      this.#lanes.addLeaving()
      this.#lanes.addUnhealed()
      // Ends early when the leases are no longer needed.
      await pause(this.#keeper.pauseMs, signal)
    }
  }

  /** Emits an error. An error that no pause can fix, such as a wrong schema, ends the relay. */
  #failed(error: unknown): void {
    this.#settings.events.emit('error', { error })
    if (isTxboxError(error) && error.code === 'TXBOX_SCHEMA') this.#broken.abort(error)
  }
}
