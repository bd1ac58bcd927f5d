import { InvalidOptionError, nameOf } from '@txbox/core'
import type { Collected, GarbageCollector } from './garbage-collector.ts'

/** What we use of pg-boss 10 or later; `pg-boss` itself is not imported. */
export interface PgBossLike {
  createQueue(name: string, options?: { policy?: 'exclusive'; retryLimit?: number }): Promise<unknown>
  work(
    name: string,
    handler: (jobs: { readonly signal?: AbortSignal }[]) => Promise<unknown>,
  ): Promise<unknown>
  schedule(name: string, cron: string, data?: object | null, options?: { tz?: string }): Promise<unknown>
}

export interface PgBossScheduleOptions {
  /** The name of the queue and of its schedule; another one for each database that is collected. @default 'txbox-gc' */
  queue?: string | undefined
  /** The time zone of the cron expression, such as 'Europe/Berlin'. @default UTC */
  timeZone?: string | undefined
}

/**
 * Lets pg-boss run the collector: at the times of `cron`, on one of the machines that call this. `boss` must have been
 * started. What a run removed becomes the output of its job. The collector need not be started; a job that pg-boss
 * gives up is stopped within one batch.
 *
 * @param cron five fields, by the minute: '*\/5 * * * *' is every five minutes.
 * @throws {InvalidOptionError} when `boss` is no pg-boss. What pg-boss throws comes out as it is.
 */
export async function scheduleWithPgBoss(
  boss: PgBossLike,
  gc: Pick<GarbageCollector, 'runOnce'>,
  cron: string,
  { queue = 'txbox-gc', timeZone }: PgBossScheduleOptions = {},
): Promise<void> {
  for (const method of ['createQueue', 'work', 'schedule'] as const) {
    if (typeof (boss as Partial<PgBossLike> | null | undefined)?.[method] !== 'function') {
      throw new InvalidOptionError(
        `scheduleWithPgBoss: expected a started pg-boss of version 10 or later, not ${nameOf(boss)}.`,
      )
    }
  }
  // One job at a time, waiting or active: a run that takes longer than the schedule's step is not followed by a queue.
  await boss.createQueue(queue, { policy: 'exclusive', retryLimit: 0 })
  await boss.work(queue, async ([job]): Promise<Collected> => gc.runOnce({ signal: job?.signal }))
  await boss.schedule(queue, cron, null, timeZone === undefined ? {} : { tz: timeZone })
}
