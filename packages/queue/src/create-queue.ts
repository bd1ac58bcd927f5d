import { hours, type ConnectedDatabase, type Database, type TransactionHandle } from '@txbox/core'
import { OptionChecker, isConnected, notifyOption, portsOf, telemetryOption } from '@txbox/core/internal'
import { MessageSender } from './message-sender.ts'
import type { Queue, QueueOptions, SendingQueue } from './queue.ts'
import { StoredQueue } from './stored-queue.ts'

/**
 * Creates a queue in the user's database. Messages are sent in the transaction of the change that they report, and a
 * message can be deleted in the transaction of its effect. A database without a `db` can only send.
 *
 * A queue needs no setup: it exists from its first message on, and all objects with the same name and the same tables
 * are the same queue.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createQueue<Tx, P = unknown>(
  options: QueueOptions & {
    /** The result of `postgres({ db })` or `mysql({ db })`. */
    database: ConnectedDatabase<Tx>
  },
): Queue<Tx, P>
/**
 * Creates a queue with payloads of the type `P`. The `tx` of `delete` may then be a transaction of any library that txbox
 * knows; to have the type of `tx` checked too, give both type arguments, `createQueue<Tx, P>`.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createQueue<P>(
  // With ConnectedDatabase<any>, TypeScript would choose the next overload: at first it prefers one that fits without `any`.
  options: QueueOptions & {
    /** The result of `postgres({ db })` or `mysql({ db })`. */
    database: Pick<ConnectedDatabase<unknown>, keyof Database>
  },
): Queue<TransactionHandle, P>
/**
 * Creates a queue that can only send, on a database without a `db`.
 *
 * @throws {InvalidOptionError} for a missing, unknown or wrong option.
 */
export function createQueue<P = unknown>(
  options: QueueOptions & {
    /** The result of `postgres()` or `mysql()`. */
    database: Database
  },
): SendingQueue<P>
export function createQueue(options: QueueOptions & { database: Database }): SendingQueue {
  const where = 'createQueue'
  const check = new OptionChecker(where, options).known(
    'database',
    'name',
    'visibilityTimeoutMs',
    'maxReceives',
    'deduplication',
    'notify',
    'telemetry',
  )
  const ports = portsOf(where, options.database)
  const name = check.text('name', { max: 80 })
  const notify = notifyOption(check, options)
  const settings = {
    name,
    notify,
    deduplication: options.deduplication,
    telemetry: telemetryOption(check, options.telemetry),
    visibilityTimeoutMs: check.milliseconds('visibilityTimeoutMs', {
      min: 1000,
      max: hours(12),
      default: 30_000,
    }),
    maxReceives: check.integer('maxReceives', { min: 1, max: 1000, default: 10 }),
  }
  return isConnected(ports) ? new StoredQueue(ports, settings) : new MessageSender(ports, settings)
}
