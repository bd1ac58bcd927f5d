import { InvalidOptionError, hours, type Source } from '@txbox/core'
import { OptionChecker, nameOf, oneLine, propertyOf } from '@txbox/core/internal'
import { POLL_INTERVALS } from './long-poll.ts'
import { OpenQueue } from './open-queue.ts'
import type { Queue } from './queue.ts'
import { storedQueueKey, type StoredQueue } from './stored-queue.ts'

export interface QueueSourceOptions {
  /**
   * How often an idle consumer looks for messages: at first after `min` milliseconds, then at growing intervals up to
   * `max`. 1 ms to 1 hour. @default { min: 20, max: 500 }
   */
  readonly pollIntervalMs?: { readonly min?: number; readonly max?: number } | undefined
}

/**
 * Makes a stored queue the source of a consumer. A delivery can be accepted in the transaction of its effect, which
 * makes the effect happen once.
 *
 * @param queue a queue made by `createQueue` on a database with a `db`.
 * @throws {InvalidOptionError} for any other queue, or a wrong option.
 */
export function queueSource<Tx, P>(queue: Queue<Tx, P>, options: QueueSourceOptions = {}): Source<P> {
  const where = 'queueSource'
  if (propertyOf(queue, storedQueueKey) !== true) {
    throw new InvalidOptionError(
      `${where}: expected a queue that createQueue has made on a database with a 'db', not ${nameOf(queue)}.`,
    )
  }
  const stored = queue as StoredQueue<Tx, P>
  new OptionChecker(where, options).known('pollIntervalMs')
  const poll = new OptionChecker(`${where}: pollIntervalMs`, options.pollIntervalMs ?? {}).known('min', 'max')
  const min = poll.milliseconds('min', { min: 1, max: hours(1), default: POLL_INTERVALS.min })
  const max = poll.milliseconds('max', { min, max: hours(1), default: Math.max(min, POLL_INTERVALS.max) })
  return {
    name: `queue ${oneLine(queue.name)}`,
    system: 'txbox',
    destination: queue.name,
    traits: {
      delays: true,
      countsDeliveries: true,
      keepsRejected: true,
      ordersKeys: true,
      settlesInTransaction: true,
      leaseMs: stored.settings.visibilityTimeoutMs,
      maxDeliveries: stored.settings.maxReceives,
    },
    async open({ prefetch, deadLettered }) {
      await stored.ready()
      return new OpenQueue(stored, { prefetch, pollIntervals: { min, max }, deadLettered })
    },
  }
}
