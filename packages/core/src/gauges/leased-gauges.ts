import { AsyncLocalStorage } from 'node:async_hooks'
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { isConnected } from '../database/database.ts'
import { reasonOf } from '../errors/reason-of.ts'
import { systemClock, type Clock } from '../leases/lease-trust.ts'
import { SingleLease } from '../leases/single-lease.ts'
import type { ConnectedPorts, DatabasePorts } from '../ports/database-ports.ts'
import type { InspectionStore } from '../ports/inspection-store.ts'
import { pause } from '../time/pause.ts'
import { unlessAborted } from '../time/unless-aborted.ts'
import { GAUGES_OF_TABLES, GAUGE_PARTS, type GaugePart, type Observations } from './gauge-parts.ts'
import type { GaugeName } from '../telemetry/names.ts'
import type { FindTelemetry } from '../telemetry/telemetry-option.ts'
import { whileInUse } from '../telemetry/telemetry-in-use.ts'
import type { Observation, Telemetry } from '../telemetry/telemetry.ts'

const REASON_CHARACTERS = 500
/**
 * A reading that fails again and again is tried after 8 times the usual pause, which is two minutes, because each attempt may write an
 * error to the log of the server.
 */
const LONGEST_RETRY = 8
/** Runs the readings outside the request that asks first: the readings go on after the request, and do not belong to its trace. */
const outside = AsyncLocalStorage.snapshot()

interface Settings {
  /** The pause between two readings, and between two attempts to get the lease. */
  readonly everyMs: number
  readonly leaseMs: number
  /** A process whose telemetry has not asked for so long reads no more, and leaves the lease to another one. */
  readonly forgottenMs: number
  readonly clock: Clock
}

const SETTINGS: Settings = { everyMs: 15_000, leaseMs: 40_000, forgottenMs: 600_000, clock: systemClock }

/** How long a stop that has time left waits for the release of the lease: a database that hangs must not hold it up for longer. */
export const GAUGES_END_MS = 1000

/** The gauges of each pool, which all parts of txbox on the pool share. */
const ofPorts = new WeakMap<ConnectedPorts, LeasedGauges>()

/**
 * Lets the telemetry in use have the gauges of the tables, as long as a part of txbox runs on this database.
 *
 * @returns a function that ends this, and may be called again. Its promise resolves when the lease is released, and never rejects. It may
 *   never resolve if the database hangs.
 */
export function observeTables(ports: DatabasePorts | undefined, find: FindTelemetry): () => Promise<void> {
  if (ports === undefined || !isConnected(ports)) return () => Promise.resolve()
  const gauges = ofPorts.get(ports) ?? new LeasedGauges(ports)
  ofPorts.set(ports, gauges)
  const end = whileInUse(find, (telemetry) => gauges.observe(telemetry))
  return () => {
    end()
    return gauges.idle
  }
}

/**
 * The gauges of the tables of one database, for the telemetries of this process. Of all processes, the holder of a lease reads them,
 * and reports its last reading as long as it is sure of the lease: no figure is exported twice. No telemetry waits for a reading.
 *
 * Nothing is read before a telemetry asks for a gauge: an SDK for traces alone asks for none.
 */
export class LeasedGauges {
  readonly #ports: ConnectedPorts
  readonly #settings: Settings
  readonly #lease: SingleLease
  readonly #observed = new Map<Telemetry, { users: number; readonly end: () => void }>()
  readonly #readings = new Map<GaugePart, Observations>()
  readonly #reported = new Set<string>()
  /** The lease and the parts that failed last time, and when each may be tried again. */
  readonly #failures = new Map<GaugePart | 'lease', { readonly retryAt: number; readonly afterMs: number }>()
  #inspection: InspectionStore | undefined
  #askedAt = -Infinity
  #reading: Promise<void> | undefined
  #ending = new AbortController()

  constructor(ports: ConnectedPorts, settings: Partial<Settings> = {}) {
    this.#ports = ports
    this.#settings = { ...SETTINGS, ...settings }
    this.#lease = new SingleLease(() => ports.leases(), {
      name: 'metrics',
      owner: `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`,
      leaseMs: this.#settings.leaseMs,
      clock: this.#settings.clock,
    })
  }

  /** Resolves when nothing is read any more and the lease is released, or at once if other parts still observe. Never rejects. */
  get idle(): Promise<void> {
    return this.#observed.size > 0 ? Promise.resolve() : (this.#reading ?? Promise.resolve())
  }

  /** Parts that have the same telemetry share its gauges. @returns a function that ends this. */
  observe(telemetry: Telemetry): () => void {
    const observed = this.#observed.get(telemetry) ?? { users: 0, end: this.#begin(telemetry) }
    this.#observed.set(telemetry, observed)
    observed.users++
    return () => {
      observed.users--
      if (observed.users > 0) return
      this.#observed.delete(telemetry)
      observed.end()
      if (this.#observed.size === 0) this.#ending.abort()
    }
  }

  #begin(telemetry: Telemetry): () => void {
    const ends = GAUGES_OF_TABLES.map((metric) => telemetry.observe(metric, async () => this.#last(metric)))
    return () => ends.forEach((end) => end())
  }

  /** The last reading of a gauge. Begins to read if nobody has asked before. */
  #last(metric: GaugeName): readonly Observation[] {
    this.#askedAt = this.#settings.clock.monotonicMs()
    if (this.#reading === undefined && this.#observed.size > 0) {
      this.#ending = new AbortController()
      const { signal } = this.#ending
      this.#reading = outside(() => this.#keepReading(signal)).finally(() => (this.#reading = undefined))
    }
    if (!this.#lease.isTrusted) return []
    return [...this.#readings.values()].flatMap((observations) => observations.get(metric) ?? [])
  }

  async #keepReading(signal: AbortSignal): Promise<void> {
    const { everyMs, forgottenMs, clock } = this.#settings
    while (!signal.aborted && clock.monotonicMs() - this.#askedAt < forgottenMs) {
      const isOfUse = await this.#readAll(signal)
      if (!isOfUse) await this.#release()
      // The others try within one pause.
      await pause(isOfUse ? everyMs : 2 * everyMs, signal, { ref: false })
    }
    this.#readings.clear()
    await this.#release()
  }

  /**
   * Reads all parts, if this process holds the lease.
   *
   * @returns `false` if this process cannot get the lease, or cannot even read the first part, which says how long messages have been
   *   due: such as with the privileges of a service. Then the lease is for another process.
   */
  async #readAll(signal: AbortSignal): Promise<boolean> {
    const failed = new Map<GaugePart, unknown>()
    for (const part of GAUGE_PARTS) {
      const isFirst = part === GAUGE_PARTS[0]
      if (!this.#mayTry(part)) {
        if (isFirst) return false
        continue
      }
      const held = await this.#holdLease(signal)
      if (held !== true) return held === false
      try {
        this.#inspection ??= this.#ports.inspection()
        this.#readings.set(part, await unlessAborted(part.read(this.#inspection), signal))
        this.#failures.delete(part)
      } catch (error) {
        if (signal.aborted) return true
        // The last figures of this part would hide that it cannot be read.
        this.#readings.delete(part)
        this.#failed(part)
        failed.set(part, error)
        if (isFirst) break
      }
    }
    this.#reportFailed(failed)
    return !failed.has(GAUGE_PARTS[0]!)
  }

  /** @returns whether this process holds the lease; `undefined` if that cannot be found out. */
  async #holdLease(signal: AbortSignal): Promise<boolean | undefined> {
    if (signal.aborted) return false
    if (!this.#mayTry('lease')) return undefined
    const wasTrusted = this.#lease.isTrusted
    try {
      // Not aborted by the signal: the statement must have ended before the lease is released.
      const holds = await this.#lease.hold()
      // Each reading takes a connection of the pool, which may be too small for a second connection.
      await this.#lease.rest()
      this.#failures.delete('lease')
      // After a time without the lease, the last readings are old.
      if (!holds || !wasTrusted) this.#readings.clear()
      return holds && !signal.aborted
    } catch (error) {
      if (signal.aborted) return false
      this.#failed('lease')
      this.#report(
        ['lease'],
        "This process does not read the metrics of the tables: it cannot get the lease 'metrics'",
        error,
      )
      return undefined
    }
  }

  #mayTry(what: GaugePart | 'lease'): boolean {
    return this.#settings.clock.monotonicMs() >= (this.#failures.get(what)?.retryAt ?? -Infinity)
  }

  /** Each failure in a row doubles the time until the next attempt. */
  #failed(what: GaugePart | 'lease'): void {
    const { everyMs, clock } = this.#settings
    const afterMs = Math.min((this.#failures.get(what)?.afterMs ?? everyMs / 2) * 2, LONGEST_RETRY * everyMs)
    this.#failures.set(what, { retryAt: clock.monotonicMs() + afterMs, afterMs })
  }

  async #release(): Promise<void> {
    try {
      await this.#lease.release()
    } catch {
      // The database does not answer, or the pool has been ended: then the lease ends by itself.
    }
  }

  #reportFailed(failed: ReadonlyMap<GaugePart, unknown>): void {
    const parts = [...failed.keys()].filter(({ name }) => !this.#reported.has(name))
    if (parts.length === 0) return
    const subjects = parts.map(({ subject }) => subject).join(', of ')
    this.#report(
      parts.map(({ name }) => name),
      `The metrics of ${subjects} cannot be read`,
      failed.get(parts[0]!),
    )
  }

  /** An absent metric has an alert of its own, and the part that reads may have no listener: one warning is enough. */
  #report(kinds: readonly string[], what: string, error: unknown): void {
    if (kinds.every((kind) => this.#reported.has(kind))) return
    for (const kind of kinds) this.#reported.add(kind)
    process.emitWarning(
      `${what} (${reasonOf(error, REASON_CHARACTERS)}). txbox goes on without these metrics, tries again, and reports this once. If a ` +
        'privilege is missing, grant the roles txbox_relay and txbox_viewer to the user of this process.',
      { type: 'TxboxWarning', code: 'TXBOX_METRICS' },
    )
  }
}
