import { InvalidOptionError } from '@txbox/core'
import { nameOf } from '@txbox/core/internal'
import type { Collected, GarbageCollector } from './garbage-collector.ts'

/** The methods of pg-boss 10 or later that txbox uses; `pg-boss` itself is not imported. */
export interface PgBossLike {
  createQueue(name: string, options?: { policy?: 'exclusive'; retryLimit?: number }): Promise<unknown>
  work(
    name: string,
    handler: (jobs: { readonly signal?: AbortSignal }[]) => Promise<unknown>,
  ): Promise<unknown>
  schedule(name: string, cron: string, data?: object | null, options?: { tz?: string }): Promise<unknown>
}

export interface PgBossScheduleOptions {
  /** The name of the queue and of its schedule. Use a different name for each database. @default 'txbox-gc' */
  queue?: string | undefined
  /** The time zone of the cron expression, such as 'Europe/Berlin'. @default UTC */
  timeZone?: string | undefined
}

/**
 * Runs the collector as a pg-boss job at the times of `cron`, on one of the machines that call this function. `boss`
 * must have been started; the collector need not be started. The output of a job is the result of its run. If pg-boss
 * gives up a job, its run stops after the current batch.
 *
 * @param cron five fields, with a resolution of one minute: '*\/5 * * * *' is every five minutes.
 * @throws {InvalidOptionError} when `boss` is not a pg-boss. An error that pg-boss throws is rethrown unchanged.
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
  // At most one job is waiting or active, so that no further jobs pile up during a long run.
  await boss.createQueue(queue, { policy: 'exclusive', retryLimit: 0 })
  await boss.work(queue, async ([job]): Promise<Collected> => gc.runOnce({ signal: job?.signal }))
  await boss.schedule(queue, cron, null, timeZone === undefined ? {} : { tz: timeZone })
}
