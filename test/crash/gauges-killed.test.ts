import { existsSync, readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { DeliveryLog } from '../support/worlds/delivery-log.ts'
import { useOutboxTarget } from '../support/engines/outbox-target.ts'
import { useTarget } from '../support/engines/target.ts'
import { Program } from '../support/worlds/program.ts'
import { until } from '../support/worlds/until.ts'
import type { ReporterConfig } from './programs/reporter.ts'

const target = useTarget()
const outbox = useOutboxTarget(target)
/** Within this time another process reports after a crash, as the documentation says. */
const MINUTE_MS = 60_000

/** The processes that have reported, in order: two that report at the same time appear again and again. */
function reportersIn({ file }: DeliveryLog): readonly string[] {
  const names = existsSync(file) ? readFileSync(file, 'utf8').split('\n').slice(0, -1) : []
  return names.filter((name, n) => name !== names[n - 1])
}

test(
  'of two processes one reports the tables: the other one follows within a minute when it is frozen or killed, and what wakes up reports nothing',
  async () => {
    const log = new DeliveryLog()
    const reporter = (name: string, part: ReporterConfig['part']): Promise<Program> => {
      const config: ReporterConfig = { url: outbox.url(), log: log.file, name, part }
      return Program.started('reporter', config)
    }
    const reports = async (...names: readonly string[]): Promise<void> => {
      await until(
        async () => reportersIn(log).length >= names.length,
        () => `${names.join()} report; there are ${reportersIn(log).join()}`,
        MINUTE_MS,
      )
      expect(reportersIn(log)).toEqual(names)
    }
    const first = await reporter('first', 'relay')
    await reports('first')
    const second = await reporter('second', 'local consumer')
    await pause(2000)
    await reports('first')
    first.pause()
    await first.paused()
    await reports('first', 'second')
    first.resume()
    // Longer than the time between two attempts to get the lease.
    await pause(17_000)
    await reports('first', 'second')
    await second.kill()
    await reports('first', 'second', 'first')
  },
  4 * MINUTE_MS,
)
