import { InvalidOptionError, type OutboxMessage } from '@txbox/core'
import { OptionChecker, propertyOf } from '@txbox/core/internal'

/** An hour. */
const LONGEST_TIMEOUT_MS = 3_600_000
const LARGEST_MESSAGE_BYTES = 100_000_000

/** The part of a started `PgBoss` that the publisher uses. */
export interface PgBossLike {
  insert(name: string, jobs: object[], options?: { returnId?: boolean }): Promise<string[] | null>
  getJobById(name: string, id: string): Promise<unknown>
  /** Asked by `check`. */
  schemaVersion?(): Promise<number | null>
}

/** Options of a job, with their meanings and defaults in pg-boss. `id` and `data` are the publisher's. */
export interface PgBossJobOptions {
  readonly priority?: number | undefined
  readonly retryLimit?: number | undefined
  readonly retryDelay?: number | undefined
  readonly retryBackoff?: boolean | undefined
  readonly retryDelayMax?: number | undefined
  readonly startAfter?: number | string | Date | undefined
  readonly singletonKey?: string | undefined
  readonly singletonSeconds?: number | undefined
  readonly expireInSeconds?: number | undefined
  readonly deleteAfterSeconds?: number | undefined
  readonly retentionSeconds?: number | undefined
  readonly heartbeatSeconds?: number | undefined
  readonly group?: { readonly id: string; readonly tier?: string } | undefined
  readonly deadLetter?: string | undefined
}

export interface PgBossPublisherOptions {
  /** A `PgBoss` of version 12 or later that was started. The publisher never stops it. */
  boss: PgBossLike
  /** Chooses the queue. @default the message's topic */
  queue?: ((message: OutboxMessage) => string) | undefined
  /**
   * `'envelope'`: the job has all fields of the message, as `fromPgBoss` reads them. `'payload'`: the job has the payload alone, which
   * must be JSON, for workers that know nothing of txbox; type, key, correlation id, headers and time are lost.
   *
   * @default 'envelope'
   */
  data?: 'envelope' | 'payload' | undefined
  /** Returns options for the job of a message. @default those of the queue */
  job?: ((message: OutboxMessage) => PgBossJobOptions) | undefined
  /** How long a statement may take, in milliseconds. 10 ms to an hour. @default 30_000 */
  confirmTimeoutMs?: number | undefined
  /**
   * The maximum payload, 1 to 100,000,000 bytes: a message with a larger payload is rejected permanently before it is sent.
   *
   * @default 16_777_216
   */
  maxMessageBytes?: number | undefined
}

export interface PgBossSettings {
  readonly boss: PgBossLike
  readonly queueOf: (message: OutboxMessage) => unknown
  readonly data: 'envelope' | 'payload'
  readonly jobOf: ((message: OutboxMessage) => unknown) | undefined
  readonly confirmTimeoutMs: number
  readonly maxMessageBytes: number
}

/** @throws {InvalidOptionError} for a wrong option. */
export function pgBossOptions(options: PgBossPublisherOptions): PgBossSettings {
  const check = new OptionChecker('pgBossPublisher', options).known(
    ...['boss', 'queue', 'data', 'job', 'confirmTimeoutMs', 'maxMessageBytes'],
  )
  if (!isBoss(options.boss)) {
    throw new InvalidOptionError(
      "pgBossPublisher: the option 'boss' must be a PgBoss of version 12 or later: `new PgBoss(…)`, after `await boss.start()`.",
    )
  }
  return {
    boss: options.boss,
    queueOf: check.callback<(message: OutboxMessage) => unknown>('queue') ?? (({ topic }) => topic),
    data: check.oneOf('data', ['envelope', 'payload'], 'envelope'),
    jobOf: check.callback<(message: OutboxMessage) => unknown>('job'),
    confirmTimeoutMs: check.milliseconds('confirmTimeoutMs', {
      ...{ min: 10, max: LONGEST_TIMEOUT_MS },
      default: 30_000,
    }),
    maxMessageBytes: check.integer('maxMessageBytes', {
      ...{ min: 1, max: LARGEST_MESSAGE_BYTES },
      default: 16 * 1024 * 1024,
    }),
  }
}

function isBoss(value: unknown): value is PgBossLike {
  return ['insert', 'getJobById'].every((name) => typeof propertyOf(value, name) === 'function')
}
