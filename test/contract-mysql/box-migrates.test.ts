import { expect, onTestFinished, test, vi } from 'vitest'
import { rootThroughProxy } from '../support/engines/root-through-proxy.ts'
import { mainKind, useRoot, useTarget } from '../support/engines/target.ts'
import { BoxUnderTest } from '../support/subjects/box-under-test.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 8 })

test('T1 a start waits while another process is in the middle of the migrations, and uses the tables that it makes', async () => {
  vi.stubEnv('NODE_ENV', undefined)
  onTestFinished(() => void vi.unstubAllEnvs())
  const { proxy, through } = await rootThroughProxy(target, mainKind(target))
  const subject = new BoxUnderTest(target, root)
  // As the tables are before the last migration: a start without another process would refuse them.
  await target.sql(
    'delete from txbox_migrations where number = (select n from (select max(number) as n from txbox_migrations) as m)',
  )
  const alone = subject.create()
  await expect(alone.start()).rejects.toMatchObject({ code: 'TXBOX_SCHEMA' })
  const held = proxy.hold(/insert into [`\w.]*migrations/i)
  const migrating = subject.create({}, { migrate: true }, through).start()
  await held.reached
  let hasEnded = false
  const waiting = subject
    .create()
    .start()
    .finally(() => (hasEnded = true))
  await new Promise((resolve) => setTimeout(resolve, 500))
  expect(hasEnded).toBe(false)
  held.letGo()
  await migrating
  await waiting
})
