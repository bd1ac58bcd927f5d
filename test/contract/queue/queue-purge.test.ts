import { expect, test } from 'vitest'
import { QueueUnderTest } from '../../support/subjects/queue-under-test.ts'
import { QUEUE, QueueStoreUnderTest } from '../../support/subjects/queue-store-under-test.ts'
import { mainKind, useRoot, useTarget } from '../../support/engines/target.ts'

const target = useTarget()
const root = useRoot(target, mainKind(target), { max: 6 })
const leases = target.outboxTable.replace(/outbox$/, 'leases')

test('Q20 a purge locks the shards of a queue that was never received from: receivers and other purges wait for it', async () => {
  const subject = new QueueUnderTest(target, root)
  const lockOf = async (): Promise<string[]> => {
    const rows = await target.sql(`select name from ${leases}`)
    const names = rows.map(({ name }) => String(name))
    return names.filter((name) => name.startsWith(`queue/${subject.queue.name}/`))
  }
  await subject.send({ key: 'a' })
  expect(await lockOf()).toEqual([])
  expect(await subject.queue.purge()).toEqual({ removed: 1 })
  const [shard] = await lockOf()
  expect(shard).toBeDefined()

  await subject.send({ key: 'a' })
  const receiver = await root.begin()
  await receiver.exec(`select name from ${leases} where name like 'queue/${subject.queue.name}/%' for update`)
  let isDone = false
  const purging = subject.queue.purge().finally(() => (isDone = true))
  await new Promise((resolve) => setTimeout(resolve, 300))
  expect(isDone).toBe(false)
  await receiver.rollback()
  expect(await purging).toEqual({ removed: 1 })
})

test('Q12 a purge removes what it may remove, however many messages other transactions have locked', async () => {
  const queue = new QueueStoreUnderTest(root)
  const table = target.outboxTable.replace(/outbox$/, 'queue')
  await target.sql(`delete from ${table}`)
  await queue.send('a', 'a', 'a', 'a', 'a', undefined, undefined)
  const other = await root.begin()
  const locked = await target.sql(`select place from ${table} order by place limit 5`)
  for (const { place } of locked) {
    await other.exec(`select place from ${table} where place = ? for update`, [String(place)])
  }
  let removed = 0
  for (let more = true; more;) {
    const step = await queue.store.purge(QUEUE, 2)
    removed += step.removed
    more = step.more
  }
  expect(removed).toBe(2)
  await other.rollback()
})
