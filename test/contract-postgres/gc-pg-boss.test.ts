import { PgBoss } from 'pg-boss'
import { expect, onTestFinished, test } from 'vitest'
import { createGarbageCollector, InvalidOptionError, scheduleWithPgBoss } from '@txbox/gc'
import { useGarbage } from '../support/subjects/garbage.ts'
import { databaseUrl } from '../support/engines/server-outbox-target.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { until } from '../support/worlds/until.ts'

const target = useTarget()
const garbage = useGarbage(target)
const root = useRoot(target, mainKind(target))

test('pg-boss runs the collector: on schedule, one job at a time, with the figures as the output of the job', async () => {
  const boss = new PgBoss({ connectionString: await databaseUrl(target), schema: 'boss', max: 2 })
  boss.on('error', () => undefined)
  await boss.start()
  onTestFinished(() => boss.stop({ graceful: false }))
  const gc = createGarbageCollector({ database: root.database })
  await scheduleWithPgBoss(boss, gc, '*/5 * * * *', { timeZone: 'Europe/Berlin' })
  // A second service of the same kind changes nothing.
  await scheduleWithPgBoss(boss, gc, '*/5 * * * *', { timeZone: 'Europe/Berlin' })
  expect(await boss.getSchedules('txbox-gc')).toMatchObject([
    { name: 'txbox-gc', cron: '*/5 * * * *', timezone: 'Europe/Berlin' },
  ])

  await garbage.expiredClaims('c', 5)
  const [first, second] = [await boss.send('txbox-gc'), await boss.send('txbox-gc')]
  expect(first).not.toBeNull()
  expect(second).toBeNull()
  await until(
    async () => (await garbage.claimCount()) === 0,
    () => 'the job has run',
  )
  const output = async (): Promise<unknown> => (await boss.findJobs('txbox-gc', { id: first! }))[0]?.output
  await until(
    async () => (await output()) !== null,
    () => 'the job is over',
  )
  expect(await output()).toMatchObject({ inbox: 5, deadLetters: 0, complete: true })
})

test('a value that is not a pg-boss is refused', async () => {
  const gc = createGarbageCollector({ database: root.database })
  await expect(scheduleWithPgBoss({} as never, gc, '* * * * *')).rejects.toThrow(InvalidOptionError)
})
