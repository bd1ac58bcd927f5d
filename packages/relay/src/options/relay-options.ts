import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { InvalidOptionError, exponentialBackoff, hours, type Publisher, type RetryPolicy } from '@txbox/core'
import type { ConnectedPorts, LeaseStore } from '@txbox/core/ports'
import {
  OptionChecker,
  connectedPortsOf,
  loggerOption,
  nameOf,
  pollIntervalsOption,
  telemetryOption,
  type EventListeners,
  type FindTelemetry,
  type PollIntervals,
} from '@txbox/core/internal'
import { relayLog, type RelayLog } from './relay-log.ts'
import type { RelayEvents, RelayOptions } from './relay.ts'

const MIB = 1_048_576

/** How often the relay looks for keys whose head was deleted by hand. */
const HEAL_AFTER_MS = 60_000

export interface RelaySettings {
  readonly ports: ConnectedPorts
  readonly leases: LeaseStore
  readonly wakeup: 'auto' | 'poll' | 'notify'
  readonly publisher: Publisher
  readonly publishTimeoutMs: number
  readonly batchSize: number
  readonly batchBytes: number
  readonly pollMs: PollIntervals
  readonly leaseMs: number
  /** No option of users: tests have no minute to wait. */
  readonly healAfterMs: number
  readonly owner: string
  readonly retry: RetryPolicy
  readonly events: EventListeners<RelayEvents>
  readonly telemetry: FindTelemetry
  readonly log: Pick<RelayLog, 'notListening'>
}

/** @throws {InvalidOptionError} for a missing, unknown or wrong option. */
export function checkRelayOptions(options: RelayOptions): {
  settings: RelaySettings
  signal: AbortSignal | undefined
  log: RelayLog
} {
  const where = 'createRelay'
  const check = new OptionChecker(where, options).known(
    ...['database', 'publisher', 'publishTimeoutMs', 'batchSize', 'batchBytes', 'pollIntervalMs'],
    ...['wakeup', 'leaseMs', 'owner', 'retry'],
    ...['logger', 'telemetry', 'signal'],
  )
  const wakeup = check.oneOf('wakeup', ['auto', 'poll', 'notify'], 'auto')
  const pollMs = pollIntervalsOption(where, options.pollIntervalMs)
  const ports = connectedPortsOf(where, options.database)
  if (wakeup === 'notify' && ports.listen === undefined) {
    throw new InvalidOptionError(
      "createRelay: wakeup: 'notify' requires PostgreSQL and a connection to listen on: pass postgres() a pg.Pool as 'db', or " +
        "the option 'listen'.",
    )
  }
  const owner = check.text('owner', {
    max: 200,
    default: `${hostname()}:${process.pid}:${randomBytes(4).toString('hex')}`,
  })
  const log = relayLog(owner, loggerOption(check, options.logger))
  return {
    log,
    settings: {
      ports,
      leases: ports.leases(),
      wakeup,
      publisher: checkPublisher(check, options.publisher),
      publishTimeoutMs: check.milliseconds('publishTimeoutMs', { min: 10, max: hours(1), default: 60_000 }),
      batchSize: check.integer('batchSize', { min: 1, max: 10_000, default: 1000 }),
      batchBytes: check.integer('batchBytes', { min: 1024, max: 256 * MIB, default: 4 * MIB }),
      pollMs,
      leaseMs: check.milliseconds('leaseMs', { min: 500, max: 600_000, default: 10_000 }),
      healAfterMs: HEAL_AFTER_MS,
      owner,
      retry: checkRetry(check, options.retry),
      events: log.events,
      telemetry: telemetryOption(check, options.telemetry),
      log,
    },
    signal: check.signal('signal'),
  }
}

function checkPublisher(check: OptionChecker, publisher: Publisher): Publisher {
  if (typeof publisher !== 'object' || publisher === null || typeof publisher.publish !== 'function') {
    throw check.wrong('publisher', 'a Publisher, such as publishEach(…) or the publisher of a broker package')
  }
  if (publisher.ordering !== undefined && !['none', 'per-key'].includes(publisher.ordering)) {
    throw check.wrong(
      'publisher',
      `a Publisher whose 'ordering' is 'none' or 'per-key' (it is ${nameOf(publisher.ordering)})`,
    )
  }
  return publisher
}

function checkRetry(check: OptionChecker, retry: RetryPolicy | undefined): RetryPolicy {
  if (retry === undefined) return exponentialBackoff()
  if (
    typeof retry !== 'object' ||
    retry === null ||
    typeof retry.delayMs !== 'function' ||
    !Number.isSafeInteger(retry.attempts) ||
    retry.attempts < 1
  ) {
    throw check.wrong('retry', 'a RetryPolicy, such as exponentialBackoff()')
  }
  return retry
}
